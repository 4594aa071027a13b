"""Diagnostics, saved before a repair erases them.

A bundle is one compressed folder: a text file for each part, and `report.html`, which starts with
the main findings. Redaction of secrets is best effort.
"""
