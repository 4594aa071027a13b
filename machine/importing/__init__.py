"""How a host is let in: what is asked of it first, what is put on it, and what is still missing."""
