"""What the worlds of the instance contract share whose other side is a server of the test."""

from abc import ABC, abstractmethod
from typing import Any, Protocol

from support.cloud_server import CloudServer
from support.fake_fleet import FakeFleet
from support.instance_contract import Trouble

from kubenode.providers.instances import Instances
from kubenode.providers.threaded_instances import ThreadedInstances

SHORT, LONG = 1, 50
"""Seconds that a provider waits for an answer, where none comes and where one does."""


class Cloud(Protocol):
    fleet: FakeFleet
    server: CloudServer

    def add_stranger(self) -> str:
        """The ID of a running machine that somebody else made."""
        ...


class ServedInstances(ABC):
    """A subclass sets its IDs and configs, and makes providers of `url` and `seconds`.

    One serves all tests of a module: a client of an SDK takes long to make.
    """

    troubles = frozenset(Trouble)

    def __init__(self, cloud: Cloud) -> None:
        self._cloud, self.fleet = cloud, cloud.fleet
        self._made: list[ThreadedInstances] = []
        self._calm = self._new()
        self.stranger = ""
        self.instances: Instances = self._calm

    @abstractmethod
    def _provider(self, url: str, seconds: int) -> ThreadedInstances: ...

    @abstractmethod
    def provider_id(self, instance: str) -> str: ...

    def alive(self) -> set[str]:
        return {self.provider_id(one) for one in self.fleet.alive()}

    def user_data(self, provider_id: str) -> str:
        (found,) = (
            o for o in self.fleet.instances.values() if self.provider_id(o.id) == provider_id
        )
        return found.user_data

    async def settle(self) -> None:
        self.fleet.settle()

    def lose_the_answer(self) -> None:
        self.fleet.lose = True

    def hide_the_newest(self) -> None:
        self.fleet.hide()

    def begin(self, trouble: Trouble) -> None:
        match trouble:
            case Trouble.REFUSED_CONNECTION:
                closed = CloudServer(lambda request: _never(request))
                closed.gone()
                self.instances = self._new(url=closed.url)
            case Trouble.SILENT:
                self._cloud.server.silent = True
                self.instances = self._new(seconds=SHORT)
            case _:
                self.fleet.trouble = trouble

    def calm(self) -> None:
        self.fleet.trouble = None
        self.fleet.show()
        self._cloud.server.silent = False
        self.instances = self._calm

    def empty(self) -> None:
        """As in the beginning: the stranger alone is there."""
        self.fleet.instances.clear()
        self.fleet.tokens.clear()
        self.stranger = self.provider_id(self._cloud.add_stranger())

    def fresh(self) -> ThreadedInstances:
        return self._new()

    async def close(self) -> None:
        for one in self._made:
            await one.close()

    def _new(self, url: str = "", seconds: int = LONG) -> ThreadedInstances:
        made = self._provider(url or self._cloud.server.url, seconds)
        self._made.append(made)
        return made


def _never(request: Any) -> Any:
    raise AssertionError("nobody listens here")
