"""Sends batches of events to the receiver: a POST of CloudEvents in the JSON batch format.

A 2xx answer means that the receiver has stored the whole batch. Redirects are not followed.
"""

import asyncio
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import aiohttp

from kubenode.runtime.process import CannotStart
from kubenode.runtime.stream.model import BATCH_TYPE, StreamEvent, encode_batch

TIMEOUT_SECONDS = 10.0
REJECTIONS = frozenset({400, 413, 415, 422})
"""Answers to a batch that the receiver would refuse again."""


class NotAccepted(Exception):
    """The receiver has not stored the batch. `final`: it would refuse it again."""

    def __init__(self, why: str, *, final: bool = False) -> None:
        super().__init__(why)
        self.final = final


class BatchSender(Protocol):
    async def send(self, events: Sequence[StreamEvent]) -> None:
        """Return once the receiver has stored all events. Raises NotAccepted."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class StreamReceiver:
    """Address and credentials of the receiver.

    token_file: bearer token, read for each request so that it can be rotated; None for none
    ca_file: authorities to trust, None for those of the system
    """

    url: str
    token_file: Path | None = None
    ca_file: Path | None = None


class HttpBatchSender:
    """A BatchSender over one connection. Raises CannotStart for an unusable `ca_file`."""

    def __init__(self, receiver: StreamReceiver, timeout: float = TIMEOUT_SECONDS) -> None:
        self._receiver, self._timeout = receiver, timeout
        self._tls = _context(receiver.ca_file)
        self._session: aiohttp.ClientSession | None = None

    async def send(self, events: Sequence[StreamEvent]) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                status = await self._post(encode_batch(list(events)))
        except TimeoutError as error:
            raise NotAccepted(f"no answer within {self._timeout:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise NotAccepted(f"cannot be reached: {type(error).__name__}: {error}") from error
        if not 200 <= status < 300:
            raise NotAccepted(f"answers {status}", final=status in REJECTIONS)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _post(self, body: bytes) -> int:
        headers = {"Content-Type": BATCH_TYPE, **self._authorization()}
        async with self._connected().post(
            self._receiver.url, data=body, headers=headers, allow_redirects=False
        ) as answer:
            return answer.status

    def _authorization(self) -> dict[str, str]:
        file = self._receiver.token_file
        return {} if file is None else {"Authorization": f"Bearer {file.read_text().strip()}"}

    def _connected(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=self._tls, limit=1),
                headers={"User-Agent": "kubenode-stream"},
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session


def _context(ca_file: Path | None) -> ssl.SSLContext | bool:
    if ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=str(ca_file))
    except OSError as error:
        raise CannotStart(
            f"--stream-ca-file {ca_file}: {error.strerror or error}; name a PEM file of authorities"
        ) from error
