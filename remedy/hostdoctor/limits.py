"""How much may arrive: per caller in a time, and of all together in memory."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from kubenode.runtime.clock import Clock
from kubenode.runtime.rate import TokenBucket
from remedy.hostdoctor.gate import Caller

RATE, BURST = 50.0, 500.0
"""Deliveries per second of one that delivers."""
AGENT_RATE, AGENT_BURST = 1.0, 30.0
MOST_CALLERS = 16_384
"""That are remembered; who was quiet longest is forgotten, and has a full burst again."""
MOST_BYTES = 24 * 2**20
"""Of all bodies that are being read or stored."""
READ_SECONDS = 15.0
"""For a whole body: who sends slower holds a connection, and nothing else."""


class TooLong(Exception):
    """The body is longer than the endpoint takes."""


class TooSlow(Exception):
    """The body did not arrive in time."""


class Full(Exception):
    """Too much is under way; soon there is room."""


class Rates:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def allow(self, caller: Caller) -> bool:
        bucket = self._buckets.get(caller.name)
        if bucket is None:
            rate, burst = (AGENT_RATE, AGENT_BURST) if caller.agent else (RATE, BURST)
            bucket = self._buckets[caller.name] = TokenBucket(rate, burst, self._clock)
            if len(self._buckets) > MOST_CALLERS:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(caller.name)
        return bucket.allow()


class Room:
    """For the bodies of all callers together."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most, self._used = most, 0

    @contextmanager
    def body(self) -> Iterator["Body"]:
        """What is read in it counts until the end."""
        body = Body(self)
        try:
            yield body
        finally:
            self._used -= body.taken

    def take(self, size: int) -> None:
        """Raises Full."""
        if self._used + size > self._most:
            raise Full(f"{self._used} bytes are being taken in")
        self._used += size


class Body:
    def __init__(self, room: Room) -> None:
        self._room, self.taken = room, 0

    async def read(self, chunks: AsyncIterator[bytes], announced: str, longest: int) -> bytes:
        """`announced` is the header Content-Length, "" for none.

        Raises TooLong, TooSlow, Full.
        """
        if announced.isdecimal() and int(announced[:20]) > longest:
            raise TooLong(f"body: has {announced[:20]} bytes, at most {longest} are taken")
        raw = bytearray()
        try:
            async with asyncio.timeout(READ_SECONDS):
                async for chunk in chunks:
                    if len(raw) + len(chunk) > longest:
                        raise TooLong(f"body: is longer than {longest} bytes")
                    self._room.take(len(chunk))
                    self.taken += len(chunk)
                    raw += chunk
        except TimeoutError:
            raise TooSlow(f"body: did not arrive within {READ_SECONDS:g} s") from None
        return bytes(raw)
