"""One call: what it sends, and what waits for it."""
