"""Response models and the create request."""
