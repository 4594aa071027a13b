"""Raw REST over a Transport: bytes in, bytes out, our own errors.

`open` streams; `call` is bounded in time and decodes. Only reads are retried, and only within their
timeout. A write whose answer was lost may have happened: the next reconcile reads the object, and
decides better than a blind retry. A 409 goes to the caller for the same reason.
"""

import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlencode

import aiohttp
import msgspec

from kubenode.runtime.clock import Clock, SystemClock
from kubenode.runtime.fence import write_seconds
from kubenode.runtime.kube.errors import (
    TOO_LARGE_RESOURCE_VERSION,
    KubeError,
    ServerUnreachable,
    Unauthorized,
    Undecodable,
    error_for,
)
from kubenode.runtime.kube.outage import Outage
from kubenode.runtime.kube.servertime import ServerTime
from kubenode.runtime.kube.transport import CredentialsError, Transport
from kubenode.runtime.loopdelay import LoopDelay
from kubenode.runtime.rate import Spread, TokenBucket

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=dict[str, Any])
else:
    from typing import TypeVar

    T = TypeVar("T")

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
"""For custom resources and every status: null removes a field, lists are replaced as a whole."""
JSON_PATCH = "application/json-patch+json"
"""For a test-and-set of single fields."""
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
"""For built-in kinds only; custom resources answer 415."""
APPLY_PATCH = "application/apply-patch+yaml"

Query = Mapping[str, str | int | None]
WentBackHandler = Callable[[str, int, int], None]
"""Called with the path of the resource, the last resourceVersion, and that of a full list now.

The list's version may be the higher one, because writes after the restore increase it.
"""
Decode = Callable[[bytes], T]

NETWORK_ERRORS = (aiohttp.ClientError, TimeoutError, OSError)
READ_ATTEMPTS = 3
RETRY_AFTER_SPREAD = 0.25
"""Share of Retry-After that is added at random."""
# Errors that prove a working server. A starting one answers 403 and 429 to everything.
_FROM_STORAGE = frozenset({404, 409, 410, 422})
_WORTH_ANOTHER_READ = frozenset({0, 429, 500, 502, 503, 504})


def as_dict(raw: bytes) -> Any:
    """Decode JSON into plain dicts and lists; an empty body into None. The default of `decode`."""
    return msgspec.json.decode(raw) if raw else None


class RequestMeter(Protocol):
    """Receives a client's measurements."""

    def request(self, method: str, code: str, seconds: float) -> None:
        """Record a request. `code` is the HTTP status, or "none" without an answer."""
        ...


class NoRequestMeter:
    def request(self, method: str, code: str, seconds: float) -> None: ...


class Kube:
    """A client of one API server under one identity.

    timeout: seconds of a whole `call`, including retried reads
    rate: limit of requests per second, with `burst` at once; callers above it wait
    attempts: most tries of a read
    outage: shared by all clients of this server, see `Outage`
    delay: when our own event loop was late, for informers; the owner of the process runs it

    Leases have a Kube and a Transport of their own, so that no burst of calls delays them.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        timeout: float = 15.0,
        clock: Clock | None = None,
        rate: float = 500.0,
        burst: float = 1000.0,
        attempts: int = READ_ATTEMPTS,
        gzip: bool = False,
        outage: Outage | None = None,
        delay: LoopDelay | None = None,
        meter: RequestMeter | None = None,
    ) -> None:
        self.transport = transport
        self.timeout = timeout
        self.clock = clock or SystemClock()
        self.server_time = ServerTime(self.clock)
        self.attempts = attempts
        self.outage = outage or Outage()
        self.delay = delay or LoopDelay(self.clock)
        self.on_went_back: list[WentBackHandler] = []
        """Called by informers whose cache predates a restore, before they read the list."""
        self.restores = 0
        self.newest = 0
        """Highest resourceVersion that informers of custom resources have read.

        Custom resources share one etcd, while some built-in kinds may have their own.
        """
        self.watches: set[aiohttp.ClientResponse] = set()
        """Open watches of informers."""
        self._meter = meter or NoRequestMeter()
        self._bucket = TokenBucket(rate, burst, self.clock)
        # Inside of a cluster compression costs the server more than the bytes do: 0.33 s instead of
        # 0.15 s of its CPU for 2,000 Nodes. Over a WAN the bytes cost more.
        self._encoding = "gzip" if gzip else "identity"

    async def close(self) -> None:
        await self.transport.close()

    def restored(self) -> None:
        """Make every informer list again, because the server's data were restored from a backup.

        The informer of a quiet resource would not notice by itself, once other writes have passed
        the resourceVersion that it knows.
        """
        self.restores += 1
        self.newest = 0
        for watch in [*self.watches]:
            watch.close()

    async def open(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        body: Any = None,
        content_type: str = JSON,
        timeout: float | aiohttp.ClientTimeout | None = None,  # noqa: ASYNC109  aiohttp's own
    ) -> aiohttp.ClientResponse:
        """Send one request and return the open response; the caller reads and closes it.

        Raises KubeError for every answer of 400 and above, ServerUnreachable without an answer, and
        LeaseLost for a write of a former leader.
        """
        tried = f"{method} {path}"
        if query and (given := {k: v for k, v in query.items() if v is not None}):
            path = f"{path}?{urlencode(given)}"
        data = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        if not isinstance(timeout, aiohttp.ClientTimeout):
            timeout = aiohttp.ClientTimeout(total=timeout or self.timeout)
        await self._bucket.take()
        response = await self._authenticated(tried, method, path, data, content_type, timeout)
        if response.status < 400:
            self.outage.succeeded()
            return response
        error = await _error_of(response, tried)
        if error.status >= 500 and TOO_LARGE_RESOURCE_VERSION not in error.causes:
            self.outage.failed()
        elif error.status in _FROM_STORAGE:
            self.outage.succeeded()
        raise error

    async def _authenticated(
        self,
        tried: str,
        method: str,
        path: str,
        data: bytes | None,
        content_type: str,
        limit: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        """Send a request. After a 401, reload the credentials once for all callers and retry."""
        headers = {"Accept": JSON, "Accept-Encoding": self._encoding}
        if data is not None:
            headers["Content-Type"] = content_type
        used = self.transport.generation
        response = await self._send(tried, method, path, data, headers, limit)
        if response.status != 401:
            return response
        response.release()
        try:
            await self.transport.reload(used)
        except CredentialsError as error:
            raise Unauthorized(401, "Credentials", str(error), tried=tried) from error
        return await self._send(tried, method, path, data, headers, limit)

    async def _send(
        self,
        tried: str,
        method: str,
        path: str,
        data: bytes | None,
        headers: dict[str, str],
        limit: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        if method != "GET":
            limit = aiohttp.ClientTimeout(total=write_seconds(limit.total))  # for the whole write
        began, code = self.clock.monotonic(), "none"
        try:
            response = await self.transport.send(method, path, data, headers, limit)
            code = str(response.status)
            self.server_time.answered(response.headers.get("Date"), began)
            return response
        except NETWORK_ERRORS as error:
            if method != "GET":
                write_seconds(None)  # ended by the lease: this says nothing about the server
            self.outage.disconnected()
            raise ServerUnreachable(_sentence(error), tried=tried) from error
        except CredentialsError as error:
            raise Unauthorized(401, "Credentials", str(error), tried=tried) from error
        finally:
            self._meter.request(method, code, self.clock.monotonic() - began)

    async def call(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        body: Any = None,
        content_type: str = JSON,
        decode: Decode[T] = as_dict,
        timeout: float | None = None,  # noqa: ASYNC109  part of the seam, bounds aiohttp's
        attempts: int | None = None,
    ) -> T:
        """Send, read and decode within `timeout` seconds. A GET is tried up to `attempts` times."""
        tries = (attempts or self.attempts) if method == "GET" else 1
        deadline = self.clock.monotonic() + (timeout or self.timeout)
        for attempt in range(1, tries + 1):
            remaining = deadline - self.clock.monotonic()
            try:
                return await self._once(method, path, query, body, content_type, decode, remaining)
            except KubeError as error:
                delay = delay_before_read(error, attempt)
                last = attempt == tries or delay is None
                if last or delay is None or self.clock.monotonic() + delay >= deadline:
                    raise
            await self.clock.sleep(delay)
        raise AssertionError("the last attempt returns or raises")

    async def _once(
        self,
        method: str,
        path: str,
        query: Query | None,
        body: Any,
        content_type: str,
        decode: Decode[T],
        remaining: float,
    ) -> T:
        tried = f"{method} {path}"
        async with await self.open(method, path, query, body, content_type, remaining) as response:
            try:
                raw = await response.read()
            except NETWORK_ERRORS as error:
                self.outage.disconnected()
                raise ServerUnreachable(_sentence(error), tried=tried) from error
            try:
                return decode(raw)
            # Errors of msgspec and pydantic are ValueErrors; too deep nesting is a RecursionError.
            except (ValueError, RecursionError) as error:
                text = f"cannot read the answer: {error}"
                raise Undecodable(response.status, "", text, tried=tried) from error

    async def get(self, path: str, decode: Decode[T] = as_dict, query: Query | None = None) -> T:
        return await self.call("GET", path, query, decode=decode)

    async def create(
        self, path: str, body: Any, decode: Decode[T] = as_dict, query: Query | None = None
    ) -> T:
        """Create an object in the collection `path`. Raises AlreadyExists for a taken name."""
        return await self.call("POST", path, query, body, decode=decode)

    async def patch(
        self,
        path: str,
        body: Any,
        content_type: str = MERGE_PATCH,
        decode: Decode[T] = as_dict,
        query: Query | None = None,
    ) -> T:
        """Patch an object; fails after another write if the body has `metadata.resourceVersion`."""
        return await self.call("PATCH", path, query, body, content_type, decode)

    async def replace(
        self, path: str, body: Any, decode: Decode[T] = as_dict, query: Query | None = None
    ) -> T:
        """PUT an object. Fields that the body lacks are lost: never pass a typed subset."""
        return await self.call("PUT", path, query, body, decode=decode)

    async def delete(
        self,
        path: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str | None = None,
        grace_seconds: int | None = None,
        decode: Decode[T] = as_dict,
    ) -> T:
        """Delete an object if it still has `uid` and `resource_version`, else raise Conflict.

        propagation: Background, Foreground, Orphan, or None for the server's default
        """
        options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
        wanted = {"uid": uid, "resourceVersion": resource_version}
        if given := {k: v for k, v in wanted.items() if v}:
            options["preconditions"] = given
        if propagation:
            options["propagationPolicy"] = propagation
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        return await self.call("DELETE", path, None, options, decode=decode)


def delay_before_read(
    error: KubeError, attempt: int, spread: Spread = random.random
) -> float | None:
    """Return the seconds before a read is retried, None if a retry cannot help."""
    if error.status not in _WORTH_ANOTHER_READ or TOO_LARGE_RESOURCE_VERSION in error.causes:
        return None
    if error.retry_after is not None:
        # All clients that are refused at once get the same time: spread their return.
        return error.retry_after * (1 + RETRY_AFTER_SPREAD * spread())
    return float(0.1 * 2**attempt * (0.5 + 0.5 * spread()))


def _sentence(error: BaseException) -> str:
    """Describe an error. A TimeoutError has no text, and others only an address."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


class _StatusCause(msgspec.Struct):
    reason: str | None = None


class _StatusDetails(msgspec.Struct, rename="camel"):
    causes: list[_StatusCause] | None = None
    retry_after_seconds: int | None = None


class _ApiStatus(msgspec.Struct):
    reason: str | None = None
    message: str | None = None
    details: _StatusDetails | None = None


_decode_status = msgspec.json.Decoder(_ApiStatus).decode


async def _error_of(response: aiohttp.ClientResponse, tried: str) -> KubeError:
    """Build the error for an answer of 400 and above. A body that is no Status is quoted."""
    async with response:
        try:
            raw = await response.read()
        except NETWORK_ERRORS as error:
            raw = _sentence(error).encode()
    try:
        status = _decode_status(raw)
    except ValueError:
        status = _ApiStatus(message=raw[:200].decode(errors="replace"))
    details = status.details or _StatusDetails()
    header = response.headers.get("Retry-After", "")
    after = float(header) if header.isdigit() else details.retry_after_seconds
    return error_for(
        response.status,
        status.reason or "",
        status.message or "",
        None if after is None else float(after),
        frozenset(cause.reason for cause in details.causes or () if cause.reason),
        tried=tried,
    )
