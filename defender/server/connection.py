"""HTTP connection to the replicas of Kube Defender, with failover, TLS, token and keep-alive."""

import asyncio
import json
import random
import ssl
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from kubenode.runtime.rate import Backoff
from kubenode.runtime.telemetry import tracing

CONNECT_SECONDS = 2.0
SILENCE_SECONDS = 60.0
"""Seconds without data after which a stream counts as dead. The server writes every 15 s."""
AGAIN, AT_MOST = 0.5, 10.0
"""Least and greatest seconds until a lost stream is opened again."""
FILE_CHECK_SECONDS = 10.0
"""Interval in seconds at which certificate files are checked for changes."""
LONGEST_LINE = 2**16
"""Greatest length of a line of a stream in bytes."""
FAILOVER_CODES = frozenset({502, 503, 504})
"""Status codes after which another replica is tried."""


class Unanswered(Exception):
    """No replica gave a 2xx response. The message lists the attempts and their results."""


@dataclass(frozen=True, slots=True)
class ClientTls:
    """PEM files. `authorities` None: those that the system trusts."""

    authorities: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


class DefenderConnection:
    """Connections, kept open for all calls until `close`."""

    def __init__(
        self,
        urls: str | Sequence[str],
        token_file: str | Path | None,
        *,
        timeout: float,
        tls: ClientTls | None,
    ) -> None:
        given = [urls] if isinstance(urls, str) else urls
        self._urls = [url.rstrip("/") for url in given]
        if not self._urls:
            raise ValueError("urls: give at least one address of Kube Defender")
        self._token_file = Path(token_file) if token_file is not None else None
        self._timeout = timeout
        self._tls = _Trust(tls)
        self._at = 0
        self._session: aiohttp.ClientSession | None = None

    def __len__(self) -> int:
        return len(self._urls)

    def turn_to_next(self) -> None:
        """Start with the next replica from now on."""
        self._at = (self._at + 1) % len(self._urls)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def call(self, method: str, path: str, body: Any, longest: int) -> bytes:
        """Return the body of a 2xx response of at most `longest` bytes. Raises Unanswered.

        If a replica does not answer, the next one is tried, because every call is idempotent.
        """
        deadline = time.monotonic() + self._timeout
        failures = []
        for _ in self._urls:
            url = self._urls[self._at]
            remaining = max(deadline - time.monotonic(), 0.1)
            tried = f"{method} {url}{path.partition('?')[0]}"
            try:
                return await self._once(method, url + path, body, longest, remaining, tried)
            except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
                failures.append(f"{tried}: {error or type(error).__name__}")
            self.turn_to_next()
        raise Unanswered("; ".join(failures))

    async def _once(
        self, method: str, url: str, body: Any, longest: int, seconds: float, tried: str
    ) -> bytes:
        limit = aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS)
        async with self._open().request(
            method,
            url,
            json=body,
            headers=self._headers(),
            timeout=limit,
            allow_redirects=False,
            ssl=self._tls.context(url),
        ) as answer:
            raw = await _read(answer, longest)
            if answer.status // 100 == 2:
                return raw
            problem = f"{answer.status} {_why(raw)}"
            if answer.status in FAILOVER_CODES:
                raise ValueError(problem)
            raise Unanswered(f"{tried}: {problem}")

    async def events(self, path: str) -> AsyncIterator[str]:
        """Yield the data of server-sent events without end. A lost stream is opened again."""
        backoff = Backoff(AGAIN, AT_MOST, random.random)
        while True:
            try:
                async for data in self._stream(path):
                    backoff.reset()
                    yield data
            except (aiohttp.ClientError, TimeoutError, OSError, ValueError, Unanswered):
                self.turn_to_next()
            await asyncio.sleep(backoff.next())

    async def _stream(self, path: str) -> AsyncIterator[str]:
        url = self._urls[self._at] + path
        limit = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS
        )
        async with self._open().get(
            url,
            headers=self._headers(),
            timeout=limit,
            allow_redirects=False,
            ssl=self._tls.context(url),
        ) as answer:
            if answer.status != 200:
                raise Unanswered(f"{answer.status}")
            async for line in answer.content:
                if line.startswith(b"data:"):
                    yield line[5:].decode().strip()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(read_bufsize=LONGEST_LINE)
        return self._session

    def _headers(self) -> dict[str, str]:
        if self._token_file is None:
            return tracing.headers()
        token = self._token_file.read_text().strip()
        return {"Authorization": f"Bearer {token}", **tracing.headers()}


class _Trust:
    """TLS context of a client whose files may be renewed. Raises OSError for unusable files."""

    def __init__(self, files: ClientTls | None) -> None:
        self._files = files or ClientTls()
        self._context: ssl.SSLContext | None = None
        self._content: tuple[bytes, ...] = ()
        self._check_at = 0.0

    def context(self, url: str) -> ssl.SSLContext | bool:
        if not url.startswith("https:"):
            return True
        if self._context is None or time.monotonic() >= self._check_at:
            content = self._read()
            if self._context is None or content != self._content:
                self._context, self._content = self._new(), content
            self._check_at = time.monotonic() + FILE_CHECK_SECONDS
        return self._context

    def _read(self) -> tuple[bytes, ...]:
        files = (self._files.authorities, self._files.certificate, self._files.key)
        return tuple(path.read_bytes() for path in files if path is not None)

    def _new(self) -> ssl.SSLContext:
        files = self._files
        context = ssl.create_default_context(cafile=files.authorities)
        if files.certificate is not None:
            context.load_cert_chain(files.certificate, files.key)
        return context


async def _read(answer: aiohttp.ClientResponse, longest: int) -> bytes:
    raw = bytearray()
    async for chunk in answer.content.iter_any():
        raw += chunk
        if len(raw) > longest:
            raise ValueError(f"an answer of more than {longest} bytes is not Kube Defender's")
    return bytes(raw)


def _why(raw: bytes) -> str:
    """Return the server's message, or the start of the body if it has none."""
    try:
        return str(json.loads(raw)["message"])
    except (ValueError, KeyError, TypeError):
        return raw.decode(errors="replace")[:200]
