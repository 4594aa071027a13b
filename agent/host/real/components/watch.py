"""Files of the host, watched with inotify through their folders, because replacing a file changes
its inode.

Events are distinguished by name only, so a file of the same name elsewhere may be reported.
"""

import asyncio
import os
from collections.abc import Collection
from pathlib import Path

from agent.detectors.logs.inotify import APPEARED, ATTRIB, Inotify
from agent.host import HostError
from agent.host.files import HostRoot

CLOSE_WRITE, MOVED_FROM, DELETE, DELETE_SELF = 0x8, 0x40, 0x200, 0x400
MASK = APPEARED | ATTRIB | CLOSE_WRITE | MOVED_FROM | DELETE | DELETE_SELF
MOST_FOLDERS = 256


class InotifyWatch:
    """Implements agent.components.ports.ObjectWatch.

    root: where the host's files are mounted
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._paths: frozenset[str] = frozenset()
        self._names: dict[str, set[str]] = {}  # name in an event: paths it may refer to
        self._folders: dict[str, int] = {}
        self._inotify: Inotify | None = None

    def follow(self, paths: Collection[str]) -> None:
        self._paths = frozenset(paths)
        if self._inotify is not None:
            self._arm(self._inotify)

    async def changed(self) -> set[str]:
        if self._inotify is None:
            try:
                self._inotify = Inotify()
            except OSError as error:
                raise HostError(f"inotify: {error.strerror}") from error
            self._arm(self._inotify)
        inotify, woken = self._inotify, asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(inotify.fd, woken.set)
        try:
            while True:
                woken.clear()
                names = inotify.drain()
                # "": a folder itself is gone, so any path may have changed
                paths = self._paths if "" in names else self._meant(names)
                if paths:
                    self._arm(inotify)
                    return set(paths)
                await woken.wait()
        finally:
            loop.remove_reader(inotify.fd)

    def close(self) -> None:
        if self._inotify is not None:
            self._inotify.close()
            self._inotify = None

    def _meant(self, names: set[str]) -> frozenset[str]:
        return frozenset(path for name in names for path in self._names.get(name, ()))

    def _arm(self, inotify: Inotify) -> None:
        """Watch the folder of each path, or the nearest existing folder above it."""
        self._names = {}
        wanted: set[str] = set()
        for path in self._paths:
            folder, name = self._nearest(path)
            self._names.setdefault(name, set()).add(path)
            wanted.add(folder)
        for folder in self._folders.keys() - wanted:
            inotify.forget(self._folders.pop(folder))
        for folder in sorted(wanted)[:MOST_FOLDERS]:
            try:
                self._folders[folder] = inotify.watch(folder, MASK)
            except OSError:
                self._folders.pop(folder, None)  # gone again, or out of watches: the scan covers it

    def _nearest(self, path: str) -> tuple[str, str]:
        here = HostRoot(str(self._root)).path(path)
        while not os.path.isdir(here.parent) and here.parent != self._root:
            here = here.parent
        return str(here.parent), here.name
