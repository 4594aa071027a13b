"""Messages for senders, and their error."""

from dataclasses import dataclass
from typing import Protocol

from remedy.notify.notice import JobNotice


class NotDelivered(Exception):
    """The message was not accepted; the text says why, without secrets. A retry may help unless
    `final`.
    """

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
    """Sends to one receiver. A message may be sent again: its ID identifies it."""

    async def send(self, message: RenderedNotice) -> None:
        """Return once the message was accepted. Raises only NotDelivered; ends in bounded time."""
        ...

    async def close(self) -> None: ...
