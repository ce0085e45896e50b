"""Device instructions as host code: what the fast engine runs."""
