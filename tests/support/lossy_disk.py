"""A disk that forgets what was not flushed when the power goes.

Files are inodes; folders map names to them. What a power cut leaves is drawn apart for each file
(its flushed content, or of an unflushed one nothing, a part, garbage or all of it) and for each
folder (any of the changes since its last flush, in any combination: ext4 keeps their order, other
file systems promise nothing). A rename is one change.
"""

import errno
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

Moment = Callable[[], AbstractContextManager[None]]


@dataclass
class Inode:
    content: bytes = b""
    durable: bytes = b""

    def remains(self) -> list[bytes]:
        """What a power cut may leave of it."""
        if self.content == self.durable:
            return [self.durable]
        half = self.content[: len(self.content) // 2]
        return [self.durable, b"", half, b"\0" * len(self.content), self.content]


@dataclass
class Change:
    """Of a folder's names: those that go and those that come."""

    gone: tuple[str, ...] = ()
    come: dict[str, Inode] = field(default_factory=dict)


@dataclass
class Names:
    now: dict[str, Inode] = field(default_factory=dict)
    durable: dict[str, Inode] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)

    def change(self, change: Change) -> None:
        for name in change.gone:
            self.now.pop(name, None)
        self.now.update(change.come)
        self.changes.append(change)

    def remains(self) -> Iterator[dict[str, Inode]]:
        for chosen in product((False, True), repeat=len(self.changes)):
            names = dict(self.durable)
            for change, kept in zip(self.changes, chosen, strict=True):
                if kept:
                    for name in change.gone:
                        names.pop(name, None)
                    names.update(change.come)
            yield names


class LossyDisk:
    """Implements agent.disk.Disk. Every effect passes `moment`, at which a process may die."""

    def __init__(self, moment: Moment = nullcontext) -> None:
        self.moment = moment
        self.folders: dict[Path, Names] = {}

    def make_folder(self, folder: Path) -> None:
        with self.moment():
            self.folders.setdefault(folder, Names())

    def names(self, folder: Path) -> list[str]:
        return list(self.folders[folder].now)

    def read(self, path: Path) -> bytes:
        return self._inode(path).content

    def write(self, path: Path, content: bytes) -> None:
        with self.moment():
            names = self.folders[path.parent]
            if (inode := names.now.get(path.name)) is None:
                inode = Inode()
                names.change(Change(come={path.name: inode}))
            inode.content = content

    def flush(self, path: Path) -> None:
        with self.moment():
            if (names := self.folders.get(path)) is not None:
                names.durable, names.changes = dict(names.now), []
            else:
                inode = self._inode(path)
                inode.durable = inode.content

    def rename(self, path: Path, to: Path) -> None:
        assert path.parent == to.parent
        inode = self._inode(path)
        with self.moment():
            self.folders[path.parent].change(Change((path.name,), {to.name: inode}))

    def remove(self, path: Path) -> None:
        with self.moment():
            self.folders[path.parent].change(Change((path.name,)))

    def _inode(self, path: Path) -> Inode:
        inode = self.folders[path.parent].now.get(path.name)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
        return inode

    def after_power_cut(self) -> Iterator["LossyDisk"]:
        """Every disk that may be there when the power is back."""
        for kept in product(*(names.remains() for names in self.folders.values())):
            files = [inode for names in kept for inode in names.values()]
            for contents in product(*(inode.remains() for inode in files)):
                left = iter(contents)
                disk = LossyDisk()
                for folder, names in zip(self.folders, kept, strict=True):
                    found = {}
                    for name in names:
                        content = next(left)
                        found[name] = Inode(content, content)
                    disk.folders[folder] = Names(dict(found), dict(found))
                yield disk
