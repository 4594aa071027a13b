"""Watches the cloud's metadata service, which answers only the machine itself.

    metadata service ──► source (one for each document) ──► Teller ──► Host Doctor

A source returns a document whenever it changes. The agent does not interpret it.
"""
