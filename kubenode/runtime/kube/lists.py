"""Long lists, read once page by page. To follow a list use an informer."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, Generic, TypeVar

from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.wire import decode_page

log = logging.getLogger(__name__)

T = TypeVar("T")

PAGE = 500


async def items(kube: Kube, path: str, *, selector: str | None = None) -> AsyncIterator[Any]:
    """Yield the objects of the list at `path`, filtered by a label selector if there is one.

    Raises KubeError, also between objects.
    """
    more: str | None = None
    while True:
        query = {"labelSelector": selector, "limit": PAGE, "continue": more}
        page = await kube.get(path, query=query)
        for item in page.get("items") or ():
            yield item
        more = (page.get("metadata") or {}).get("continue")
        if not more:
            return


async def raw_items(kube: Kube, path: str) -> AsyncIterator[bytes]:
    """Yield the JSON of each object of the list. Raises KubeError, also between objects."""
    more: str | None = None
    while True:
        query = {"limit": PAGE, "continue": more}
        page = await kube.get(path, decode_page, query)
        for raw in page.items or ():
            yield bytes(raw)
        more = page.metadata.more
        if not more:
            return


async def decoded(kube: Kube, path: str, decode: Callable[[bytes], T]) -> AsyncIterator[T]:
    """Yield the decoded objects of the list at `path`; log and skip those that do not decode.

    Raises KubeError, also between objects.
    """
    async for raw in raw_items(kube, path):
        try:
            obj = decode(raw)
        except ValueError as error:
            log.warning("object of a list cannot be read", extra={"path": path, "why": str(error)})
            continue
        yield obj


class RecentList(Generic[T]):
    """A list for several readers, read again once it is older than `max_age`.

    decode: one object's JSON to the few fields that are compared, as all stay in memory
    max_age: seconds
    """

    def __init__(self, kube: Kube, decode: Callable[[bytes], T], max_age: float) -> None:
        self._kube, self._decode, self._max_age = kube, decode, max_age
        self._reading = asyncio.Lock()
        self._lists: dict[str, tuple[float, list[T]]] = {}

    async def get(self, path: str, *, anew: bool = False) -> list[T]:
        """Return the objects of the list, at most `max_age` seconds old. Raises KubeError.

        anew: read the list now
        """
        async with self._reading:
            now = self._kube.clock.monotonic()
            fresh = {p: each for p, each in self._lists.items() if now - each[0] < self._max_age}
            self._lists = fresh
            if anew or path not in fresh:
                objects = [each async for each in decoded(self._kube, path, self._decode)]
                fresh[path] = (now, objects)
            return fresh[path][1]
