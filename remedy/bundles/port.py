"""One port for all places, and the names that it takes."""

import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Protocol

MOST_BYTES = 64 * 1024 * 1024
"""Of one bundle; an agent's own limit for all of its bundles is the same."""
PER_HOST = 20
"""Bundles that are kept of one host, the newest, where the store prunes by itself."""
_AGENT = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,200}\.tar\.gz")


class StoreFailed(Exception):
    """The place did not take or give it; the text says what it answered."""


class NoBundle(Exception):
    """There is none of this name."""


class BundleStore(Protocol):
    async def put(self, agent: str, name: str, file: Path) -> str:
        """Keep `file` as `name` of the host; where, for people. One of the same name is replaced.

        Raises StoreFailed: then nothing of it is kept.
        """
        ...

    def get(self, agent: str, name: str) -> AsyncGenerator[bytes]:
        """Its bytes, in parts. Raises NoBundle, StoreFailed before the first part."""
        ...

    async def check(self) -> None:
        """Whether it can be written at all, at the start. Raises StoreFailed."""
        ...


def fits(agent: str, name: str) -> bool:
    """Whether both are names and no paths."""
    return bool(_AGENT.fullmatch(agent) and _NAME.fullmatch(name)) and ".." not in agent + name
