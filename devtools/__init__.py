"""Generators of docs, charts and reports; part of no wheel."""
