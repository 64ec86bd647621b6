"""The clients, and the calls of their resources."""
