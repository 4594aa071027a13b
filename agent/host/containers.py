"""The port to a host's container runtime: images, containers and sandboxes that may go.

As all ports (agent.host.ports): looked at before it is asked to act, each act one call, and
HostError when the host does not do or tell what is asked.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Image:
    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Container:
    id: str
    ended: datetime


@dataclass(frozen=True, slots=True)
class Sandbox:
    id: str
    ready: bool
    host_network: bool
    pod: str
    created: datetime


class Containers(Protocol):
    async def folder(self) -> str:
        """Where the runtime keeps images and containers."""
        ...

    async def unused_images(self) -> list[Image]: ...

    async def remove_image(self, image: Image) -> None: ...

    async def exited(self) -> list[Container]: ...

    async def remove_container(self, container: Container) -> None: ...

    async def sandboxes(self) -> list[Sandbox]: ...

    async def remove_sandbox(self, sandbox: str) -> None:
        """Never one that is ready: the runtime refuses it too."""
        ...
