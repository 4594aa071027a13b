"""Clouds that are asked, because they do not call: lists that are looked at, queues that are read.

    schedule ──► look at a list ────┐
    (leader)                        ├──► parser ──► about our nodes? ──► the desk
             ──► read a queue ──────┘                                    (message deleted)

A look that fails says nothing about events: none begins by it, and none ends.
"""
