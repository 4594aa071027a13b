"""A simulated host whose agent can be killed at any act and at any write to the disk."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.component_world import CONFIG, ComponentWorld
from support.lossy_disk import LossyDisk

from agent.components.records import FileRecords

FOLDER = Path("/state/components")


class Killed(BaseException):
    """Not an Exception: nothing may catch it."""


class Fate:
    """Kills at the n-th moment: before the effect, or after it."""

    def __init__(self) -> None:
        self.left = -1
        self.after = False
        self.count = 0

    @contextmanager
    def moment(self) -> Iterator[None]:
        self.count += 1
        self.left -= 1
        last = self.left == 0
        if last and not self.after:
            raise Killed
        yield
        if last and self.after:  # an act may hold others, which count on
            raise Killed


class MortalWorld(ComponentWorld):
    """Its records are on a disk that forgets, and every act on the host is a moment."""

    def __init__(self) -> None:
        self.fate, self.disk = Fate(), LossyDisk()
        self.acts: list[str] = []
        super().__init__(FileRecords(FOLDER, self.disk))
        self.disk.moment = self.fate.moment
        for port, names in (
            (self.parts.packages, ("install", "stage", "hold", "remove")),
            (self.parts.files, ("write", "remove")),
            (self.parts.units, ("start", "stop", "restart", "set_enabled")),
            (self.host, ("reboot",)),
        ):
            for name in names:
                self._mortal(port, name)

    def _mortal(self, port: object, name: str) -> None:
        real = getattr(port, name)

        async def act(*args: object, **more: object) -> object:
            with self.fate.moment():
                self.acts.append(name)
                return await real(*args, **more)

        setattr(port, name, act)

    @property
    def host_is(self) -> tuple[str, bytes]:
        return self.version, self.parts.files.files[CONFIG].content
