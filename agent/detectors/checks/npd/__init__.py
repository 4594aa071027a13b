"""Reads node-problem-detector's custom-plugin-monitor files unchanged."""
