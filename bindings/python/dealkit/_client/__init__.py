"""The clients and their resources."""
