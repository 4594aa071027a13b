"""Wakes clients that back off when the server answers again, and counts lost connections.

After an outage every informer would wait out its own delay, up to 10 s, although requests of others
succeed. So all clients of one server share an Outage, and the first success after failures wakes
those that wait. After a lost connection etcd may have been restored from a backup:
`kubenode.runtime.restore` reads its record again before any destructive act.
"""

import asyncio


class Outage:
    """State shared by all clients of one API server. The Lease's client has most requests."""

    def __init__(self) -> None:
        self.down = False
        self.disconnections = 0
        """Number of requests and watches that ended without an answer."""
        self._ended = asyncio.Event()

    def failed(self) -> None:
        """Record that a request was answered with a 5xx."""
        self.down = True

    def disconnected(self) -> None:
        """Record that a request, or an open watch, got no answer."""
        self.down = True
        self.disconnections += 1

    def succeeded(self) -> None:
        if self.down:
            self.down = False
            self._ended.set()
            self._ended = asyncio.Event()

    @property
    def ended(self) -> asyncio.Event:
        """Event that is set at the end of the present or next outage. Get it before waiting."""
        return self._ended
