"""Sends requests to the metadata service, never through a proxy."""

from collections.abc import Mapping
from dataclasses import dataclass

import aiohttp

LONGEST = 192 * 1024
"""Bytes of one document. Host Doctor takes at most 256 KiB from an agent."""


class Unreadable(Exception):
    """The service did not answer as expected, so the document is unknown."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document.

    text: "" if the service has no such document
    etag: of the document, if the service gives one
    """

    text: str
    etag: str = ""


class Service:
    """Client of the service. address: http://HOST[:PORT]. One session, opened by the first
    request.
    """

    def __init__(self, address: str) -> None:
        self._address = address.rstrip("/")
        self._session: aiohttp.ClientSession | None = None

    async def request(
        self, method: str, path: str, headers: Mapping[str, str], seconds: float, body: bytes = b""
    ) -> tuple[int, Document]:
        """Return status and document. Raises Unreadable if there is no answer."""
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=4)
            self._session = aiohttp.ClientSession(connector=connector, trust_env=False)
        limits = aiohttp.ClientTimeout(total=seconds, sock_connect=min(seconds, 5.0))
        try:
            async with self._session.request(
                method,
                self._address + path,
                headers=headers,
                data=body or None,
                timeout=limits,
                allow_redirects=False,
            ) as answer:
                raw = await _bounded(answer)
                return answer.status, Document(raw, answer.headers.get("ETag", ""))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreadable(f"{method} {path}: {str(error) or type(error).__name__}") from error

    async def get(self, path: str, headers: Mapping[str, str], seconds: float) -> Document:
        """Return the document, which is empty for a 404. Raises Unreadable."""
        status, document = await self.request("GET", path, headers, seconds)
        if status == 404:
            return Document("")
        if status != 200:
            raise Unreadable(f"GET {path}: {status} {document.text[:100]}")
        return document

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


async def _bounded(answer: aiohttp.ClientResponse) -> str:
    raw = await answer.content.read(LONGEST + 1)
    while len(raw) <= LONGEST and (more := await answer.content.read(LONGEST + 1 - len(raw))):
        raw += more
    if len(raw) > LONGEST:
        raise Unreadable(f"the document is longer than {LONGEST} bytes")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise Unreadable("the document is no UTF-8") from error
