"""Interface of stores for bundles, and the names that it accepts."""

import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Protocol

MOST_BYTES = 64 * 1024 * 1024
"""Longest bundle in bytes; an agent's limit for all of its bundles is the same."""
PER_HOST = 20
"""Newest bundles of one host that are kept, where the store prunes by itself."""
_AGENT = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,200}\.tar\.gz")


class StoreFailed(Exception):
    """The store did not accept or return a bundle; the text has its answer."""


class NoBundle(Exception):
    """There is no bundle of this name."""


class BundleStore(Protocol):
    """Stores bundles."""

    async def put(self, agent: str, name: str, file: Path) -> str:
        """Store `file` as `name` of the host, replacing one of the same name; return its place, for
        people.

        Raises StoreFailed: then nothing of it is stored.
        """
        ...

    def get(self, agent: str, name: str) -> AsyncGenerator[bytes]:
        """Yield the bytes in parts. Raises NoBundle or StoreFailed before the first part."""
        ...

    async def check(self) -> None:
        """Check at the start that the store is writable. Raises StoreFailed."""
        ...


def fits(agent: str, name: str) -> bool:
    """Report whether both are valid names and not paths."""
    return bool(_AGENT.fullmatch(agent) and _NAME.fullmatch(name)) and ".." not in agent + name
