"""Observability of calls: the logger ``dealkit``, and OpenTelemetry's spans and metrics."""
