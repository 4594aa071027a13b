"""Drift: differences between the host and what is applied, and how often they were corrected."""
