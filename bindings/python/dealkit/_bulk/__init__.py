"""Bulk jobs, and creates with an idempotency key."""
