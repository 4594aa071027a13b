"""What the cloud tells a machine alone: its metadata service, watched on the machine itself.

    metadata service ──► source (one for each document) ──► teller ──► Host Doctor

A source gives a document as it is whenever it has changed. The agent judges nothing of it.
"""
