"""The store: one schema in SQLite or PostgreSQL, with migrations."""
