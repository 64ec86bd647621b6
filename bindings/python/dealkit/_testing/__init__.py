"""The sandbox, and errors made for tests."""
