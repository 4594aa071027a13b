"""Host Doctor: reports of other systems about our hosts, stored as HostEvents.

    webhook, CloudEvent, poll ──► parser (pure) ──► Reported ──► node resolved ──► HostEvent

A parser handles one transport and its peculiarities. Everything after it is the same for all
sources and level-based: a repeated report is the same HostEvent, and an event that its source no
longer lists is over.
"""
