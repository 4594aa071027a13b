"""Certificates of agents: which requests are granted, and what is remembered of them."""
