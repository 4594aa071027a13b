"""What the worlds of the provider contract share whose other side is a server of the test."""

from abc import ABC, abstractmethod
from typing import Protocol

from support.cloud_server import CloudServer
from support.fake_machine import FakeMachine
from support.provider_contract import LONG, SHORT, Trouble

from kubenode.providers.threads import Threaded


class Other(Protocol):
    """A cloud or a BMC: its server, and what it answers from now on."""

    server: CloudServer
    trouble: Trouble | None


class ServedWorld(ABC):
    """other  who is asked; `on` the machine that the test looks at

    A subclass sets its machines, its settings in `_given`, and then calls `__init__` of this.
    """

    def __init__(self, other: Other, on: FakeMachine) -> None:
        self._other, self.on = other, on
        self.provider = self._provider(LONG)

    @abstractmethod
    def _provider(self, seconds: int) -> Threaded:
        """One that waits for an answer for so long."""

    @property
    def boots(self) -> int:
        return self.on.boots

    async def settle(self) -> None:
        self.on.settle()

    def begin(self, trouble: Trouble) -> None:
        match trouble:
            case Trouble.REFUSED_CONNECTION:
                self._other.server.gone()
            case Trouble.SILENT:
                self._other.server.silent = True
                self.provider = self._provider(SHORT)
            case _:
                self._other.trouble = trouble
