"""The three requests of an informer: a page of a list, a watch, and a check of its version.

Errors of the network and of broken lines leave this module as KubeError or BadLine.
"""

import random
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Protocol

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

from kubenode.runtime.kube.client import NETWORK_ERRORS, Kube
from kubenode.runtime.kube.errors import ServerUnreachable
from kubenode.runtime.kube.wire import ListPage, decode_page
from kubenode.runtime.rate import Spread

PAGE = 500
PAGE_SECONDS = 60.0
CONNECT_SECONDS = 5.0

CHUNK = 2**20
"""Most bytes that one read takes from the stream."""
LONGEST_LINE = 2**24
"""Bytes. etcd stores 1.5 MiB for an object by default, and JSON escapes a byte with six."""

ReadLine = Callable[[], Awaitable[bytes]]
"""Returns the next line of a watch, b"" at its end."""


class BadLine(Exception):
    """A line of a watch is too long, or no event."""


class ChunkReader(Protocol):
    async def read(self, n: int, /) -> bytes:
        """Return at most `n` bytes that have arrived; wait if none have. b"" at the end."""
        ...


class LineReader:
    """Read the lines of a response, without their ends and without empty ones.

    aiohttp's own `readline` takes no line that is longer than its buffer, and a larger buffer for
    each connection would cost memory where lines are short.
    """

    def __init__(self, content: ChunkReader) -> None:
        self._content = content
        self._lines: deque[bytes] = deque()
        self._parts: list[bytes] = []
        self._size = 0

    async def read(self) -> bytes:
        """Return the next line, b"" at the end. Raises ValueError above LONGEST_LINE."""
        while not self._lines:
            chunk = await self._content.read(CHUNK)
            if not chunk:
                return self._join()
            self._take(chunk)
        return self._lines.popleft()

    def _take(self, chunk: bytes) -> None:
        first, *others = chunk.split(b"\n")
        self._parts.append(first)
        self._size += len(first)
        if self._size > LONGEST_LINE:
            raise ValueError(f"it has more than {LONGEST_LINE} bytes")
        if others:
            self._lines.extend(line for line in (self._join(), *others[:-1]) if line)
            self._parts, self._size = [others[-1]], len(others[-1])

    def _join(self) -> bytes:
        line = b"".join(self._parts)
        self._parts, self._size = [], 0
        return line


class ListWatch:
    """Requests for one resource, with `page` objects per page. Informer has the other arguments."""

    def __init__(
        self,
        kube: Kube,
        path: str,
        *,
        label_selector: str | None,
        field_selector: str | None,
        page: int = PAGE,
        watch_seconds: float,
        grace: float,
        spread: Spread = random.random,
    ) -> None:
        self._kube, self._path = kube, path
        self._selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        self._page, self._watch_seconds, self._grace = page, watch_seconds, grace
        self._spread = spread

    def shorten(self, watch_seconds: float) -> None:
        """Limit the length of the next watches."""
        self._watch_seconds = min(self._watch_seconds, watch_seconds)

    async def page(self, more: str | None, most: int | None = None) -> ListPage:
        """Read the first page, or the one of the token `more`, with at most `most` objects."""
        limit = self._page if most is None else min(most, self._page)
        query = {**self._selectors, "limit": limit, "continue": more}
        return await self._read(query, PAGE_SECONDS)

    async def version_not_below(self, version: str) -> int:
        """Return the server's resourceVersion if it has reached `version`.

        Otherwise raises a KubeError of status 504 with the cause ResourceVersionTooLarge.
        """
        query = {
            **self._selectors,
            "limit": 1,
            "resourceVersion": version,
            "resourceVersionMatch": "NotOlderThan",
        }
        page = await self._read(query, self._kube.timeout)
        return int(page.metadata.resource_version)

    async def _read(self, query: dict[str, str | int | None], seconds: float) -> ListPage:
        # One attempt: the informer has its own backoff.
        return await self._kube.call(
            "GET", self._path, query, decode=_page, timeout=seconds, attempts=1
        )

    @asynccontextmanager
    async def watch(self, version: str) -> AsyncIterator[ReadLine]:
        """Watch changes after `version` until the server ends the watch.

        The server is asked to end it after `watch_seconds`, less a random share, so that thousands
        of watches do not end together. Silence for `grace` beyond that means a dead peer.
        """
        seconds = max(1, int(self._watch_seconds * (0.8 + 0.2 * self._spread())))
        query: dict[str, str | int | None] = {
            **self._selectors,
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": seconds,
        }
        limit = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_SECONDS, sock_read=seconds + self._grace
        )
        response = await self._kube.open("GET", self._path, query, timeout=limit)
        self._kube.watches.add(response)
        try:
            yield LineReader(response.content).read
        except NETWORK_ERRORS as error:
            self._kube.outage.disconnected()
            text = f"{type(error).__name__}: {error}"
            raise ServerUnreachable(text, tried=f"WATCH {self._path}") from error
        except (ValueError, HttpProcessingError) as error:  # too long, or not JSON
            raise BadLine(f"a line of the watch {self._path}: {error}") from error
        finally:
            self._kube.watches.discard(response)
            response.close()


def _page(raw: bytes) -> ListPage:
    page = decode_page(raw)
    int(page.metadata.resource_version)  # ValueError: cannot be watched from
    return page
