"""Starts the agent once it has its first certificate, or without one if that takes long.

A host that joins is there within a second or two; one that waits for a person must all the same
look at itself, and tell systemd that it runs.
"""

import asyncio

from kubenode.runtime.clock import Clock, wait
from kubenode.runtime.process import Part

JOIN_SECONDS = 10.0


class Joined:
    """A Part around another: `there` is set once there is a certificate."""

    def __init__(
        self, part: Part, there: asyncio.Event, clock: Clock, seconds: float = JOIN_SECONDS
    ) -> None:
        self.name = part.name
        self._part, self._there, self._clock, self._seconds = part, there, clock, seconds

    async def run(self) -> None:
        await wait(self._clock, self._there, self._seconds)
        await self._part.run()
