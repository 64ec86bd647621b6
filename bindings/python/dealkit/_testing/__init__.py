"""The sandbox, its records, and stubs of clients."""
