"""What senders are given, and how they say no."""

from dataclasses import dataclass
from typing import Protocol

from remedy.notify.notice import JobNotice


class NotDelivered(Exception):
    """Nobody took it: why, without secrets. Trying again may help unless `final`."""

    def __init__(self, why: str, *, final: bool = False) -> None:
        super().__init__(why)
        self.final = final


@dataclass(frozen=True, slots=True)
class RenderedNotice:
    """A notice with its texts, ready to be sent."""

    notice: JobNotice
    title: str
    body: str
    cluster: str = ""


class Sender(Protocol):
    """One way to one receiver. Sending the same message again is allowed: its id says so."""

    async def send(self, message: RenderedNotice) -> None:
        """Return once it was taken. Raises NotDelivered and nothing else; ends in bounded time."""
        ...

    async def close(self) -> None: ...
