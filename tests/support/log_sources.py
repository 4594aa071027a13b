"""Who hears what sources of log lines tell, for tests."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType

from agent.detectors.logs.line import Line
from agent.detectors.logs.sources import Source


class Heard:
    """Implements Hearer."""

    def __init__(self) -> None:
        self.told: list[Line] = []
        self.said: list[str] = []
        self.changed = asyncio.Event()

    def lines(self, source: str, lines: Sequence[Line]) -> None:
        self.told += lines
        self.changed.set()

    def caught_up(self, source: str) -> None:
        self._say(f"{source} caught up")

    def lost(self, source: str, what: str) -> None:
        self._say(f"{source} lost: {what}")

    def broken(self, source: str, why: str) -> None:
        self._say(f"{source} broken: {why}")

    def _say(self, what: str) -> None:
        self.said.append(what)
        self.changed.set()

    async def until(self, lines: int = 0, said: str = "") -> None:
        async with asyncio.timeout(30):
            while len(self.told) < lines or (said and said not in self.said):
                await self.changed.wait()
                self.changed.clear()

    @property
    def texts(self) -> list[str]:
        return [line.text for line in self.told]


class Running:
    """A source at work: `async with Running(source) as heard`."""

    def __init__(self, source: Source, position: str = "") -> None:
        self.source, self.heard, self._position = source, Heard(), position

    async def __aenter__(self) -> Heard:
        self._task = asyncio.ensure_future(self.source.run(self.heard, self._position))
        return self.heard

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
