"""Call plumbing: sessions, futures of event loops, and providers of service keys."""
