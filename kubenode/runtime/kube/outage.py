"""Tells those who back off that the server answers again, and counts lost connections.

After an outage every informer would sit out its own delay, up to 10 s each, although somebody
else's request has long gone through. All clients of one server share an Outage: the first
success after failures wakes those who wait. Behind a lost connection etcd may have been restored
from a backup: `kubenode.runtime.restore` reads its record again before anything is done.
"""

import asyncio


class Outage:
    """Shared by the clients of one API server, the Lease's included: that one asks most often."""

    def __init__(self) -> None:
        self.down = False
        self.disconnections = 0
        """Requests and watches that ended without an answer."""
        self._ended = asyncio.Event()

    def failed(self) -> None:
        """A request was answered with a 5xx."""
        self.down = True

    def disconnected(self) -> None:
        """A request, or a watch that was under way, got no answer."""
        self.down = True
        self.disconnections += 1

    def succeeded(self) -> None:
        if self.down:
            self.down = False
            self._ended.set()
            self._ended = asyncio.Event()

    @property
    def ended(self) -> asyncio.Event:
        """Set when the outage that is under way, or the next one, ends. Take it before waiting."""
        return self._ended
