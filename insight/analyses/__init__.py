"""The analyses: each is one query over the store."""
