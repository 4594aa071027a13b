"""Certificates of hosts: which requests are granted, and what is remembered of them."""
