"""Pollers of clouds that send no webhooks: they read lists and queues.

    schedule ──► read a list ───────┐
    (leader)                        ├──► parser ──► about our nodes? ──► the service
             ──► read a queue ──────┘                                    (message deleted)

A failed read says nothing about events: none begins by it, and none ends.
"""
