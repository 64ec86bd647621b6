"""What is logged and traced of a call."""
