"""Port to the host's container runtime: images, containers and sandboxes that can be removed.

As with all ports (`agent.host.ports`), the state is read before an action is requested, each action
is one call, and a method raises HostError if the host does not do or report what is asked.
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
        """Folder where the runtime stores images and containers."""
        ...

    async def unused_images(self) -> list[Image]: ...

    async def remove_image(self, image: Image) -> None: ...

    async def exited(self) -> list[Container]: ...

    async def remove_container(self, container: Container) -> None: ...

    async def sandboxes(self) -> list[Sandbox]: ...

    async def remove_sandbox(self, sandbox: str) -> None:
        """Remove a sandbox that is not ready. The runtime refuses to remove one that is ready."""
        ...
