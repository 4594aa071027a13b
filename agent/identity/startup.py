"""Starts the agent after its first certificate has arrived, or without one after a timeout.

A host usually joins within a second or two. One that waits for a person must still observe itself,
and report to systemd that it runs.
"""

import asyncio

from kubenode.runtime.clock import Clock, wait
from kubenode.runtime.process import Part

JOIN_SECONDS = 10.0


class Joined:
    """Part: delays the start of another part until `there` is set, or for at most `seconds`."""

    def __init__(
        self, part: Part, there: asyncio.Event, clock: Clock, seconds: float = JOIN_SECONDS
    ) -> None:
        self.name = part.name
        self._part, self._there, self._clock, self._seconds = part, there, clock, seconds

    async def run(self) -> None:
        await wait(self._clock, self._there, self._seconds)
        await self._part.run()
