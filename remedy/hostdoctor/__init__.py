"""Host Doctor: what others know of our hosts, as HostEvents.

    webhook, CloudEvent, poll ──► parser (pure) ──► Reported ──► node resolved ──► HostEvent

A parser knows one transport and its traps. Everything after it is the same for all sources and is
level-based: an event that is told again is the same HostEvent, one that its source lists no more
is over.
"""
