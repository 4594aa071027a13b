"""Certificates of hosts: approval of requests, and records of granted ones."""
