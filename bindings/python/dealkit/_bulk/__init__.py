"""Many calls at a time."""
