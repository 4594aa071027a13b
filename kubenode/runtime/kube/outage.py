"""Tells those who back off that the server answers again.

After an outage every informer would sit out its own delay, up to 10 s each, although somebody
else's request has long gone through. All clients of one server share an Outage: the first
success after failures wakes those who wait.
"""

import asyncio


class Outage:
    """Shared by the clients of one API server, the Lease's included: that one asks most often."""

    def __init__(self) -> None:
        self.down = False
        self._over = asyncio.Event()

    def failed(self) -> None:
        """A request got no answer, or a 5xx."""
        self.down = True

    def succeeded(self) -> None:
        if self.down:
            self.down = False
            self._over.set()
            self._over = asyncio.Event()

    @property
    def over(self) -> asyncio.Event:
        """Set when the outage that is under way, or the next one, ends. Take it before waiting."""
        return self._over
