"""Hosts in memory that implement the agent's ports."""
