"""The response types and the request."""
