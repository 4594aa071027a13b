"""Checks whether node services answer, and whether they restart too often."""
