"""Raw REST over a Transport: bytes in, bytes out, our errors.

`open` streams, `call` is bounded in time and decodes. Only reads are repeated, and only while
their time lasts: a write whose answer was lost may have happened, and the next reconcile, which
reads the object, knows better than a blind second try. A 409 goes to the caller for the same
reason.
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
"""For CRs and every status: null removes a field, lists are replaced as a whole."""
JSON_PATCH = "application/json-patch+json"
"""For a test-and-set of single fields."""
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
"""For built-in kinds only; CRs answer 415."""
APPLY_PATCH = "application/apply-patch+yaml"

Query = Mapping[str, str | int | None]
WentBackHandler = Callable[[str, int, int], None]
"""Path of the resource, the resourceVersion that was seen, and the one that a full list has now.
The second may be the higher one: what was written since the restore counts on.
"""
Decode = Callable[[bytes], T]

NETWORK_ERRORS = (aiohttp.ClientError, TimeoutError, OSError)
READ_ATTEMPTS = 3
RETRY_AFTER_SPREAD = 0.25
"""Of Retry-After, added by chance."""
# Refusals that prove a working server: a starting one answers 403 and 429 to everything.
_FROM_STORAGE = frozenset({404, 409, 410, 422})
_WORTH_ANOTHER_READ = frozenset({0, 429, 500, 502, 503, 504})


def as_dict(raw: bytes) -> Any:
    """The default of `decode`: plain dicts and lists; an empty body is None."""
    return msgspec.json.decode(raw) if raw else None


class RequestMeter(Protocol):
    """What a client tells the metrics."""

    def request(self, method: str, code: str, seconds: float) -> None:
        """`code` is the HTTP status, or "none" when there was no answer."""
        ...


class NoRequestMeter:
    def request(self, method: str, code: str, seconds: float) -> None: ...


class Kube:
    """One API server under one identity.

    timeout   seconds for a whole `call`, its repeated reads included
    rate      bound on requests per second, `burst` at once; a caller above it waits
    attempts  how often a read is tried at most
    outage    shared by all clients of this server, see `Outage`
    delay     when our own loop was late, for informers; whoever owns the process runs it

    Lease traffic gets a Kube and a Transport of its own, so that no burst of calls delays it.
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
        """Told by informers whose cache is from before a restore, before they read the list."""
        self.restores = 0
        self.newest = 0
        """The highest resourceVersion that informers of custom resources saw. These share an etcd,
        whichever built-in kinds have one of their own.
        """
        self.watches: set[aiohttp.ClientResponse] = set()
        """Open ones of informers."""
        self._meter = meter or NoRequestMeter()
        self._bucket = TokenBucket(rate, burst, self.clock)
        # Within a cluster compression costs the server more than the bytes do: 0.33 s instead of
        # 0.15 s of its CPU for 2,000 Nodes. Over a WAN the bytes cost more.
        self._encoding = "gzip" if gzip else "identity"

    async def close(self) -> None:
        await self.transport.close()

    def restored(self) -> None:
        """The server's data were restored from a backup: every informer lists anew. One of a quiet
        resource would not notice, once other writes have passed the resourceVersion that it saw.
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

        Raises KubeError for every answer of 400 and above, ServerUnreachable for none, LeaseLost
        for a write of a former leader.
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
        """On 401 read the credentials again, once for all who saw it, and ask once more."""
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
            limit = aiohttp.ClientTimeout(total=write_seconds(limit.total))  # of writes: the whole
        began, code = self.clock.monotonic(), "none"
        try:
            response = await self.transport.send(method, path, data, headers, limit)
            code = str(response.status)
            self.server_time.answered(response.headers.get("Date"), began)
            return response
        except NETWORK_ERRORS as error:
            if method != "GET":
                write_seconds(None)  # ended with the reign: nothing is known of the server
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
            # msgspec's and pydantic's errors are ValueErrors; what is nested too deeply is none.
            except (ValueError, RecursionError) as error:
                text = f"cannot read the answer: {error}"
                raise Undecodable(response.status, "", text, tried=tried) from error

    async def get(self, path: str, decode: Decode[T] = as_dict, query: Query | None = None) -> T:
        return await self.call("GET", path, query, decode=decode)

    async def create(
        self, path: str, body: Any, decode: Decode[T] = as_dict, query: Query | None = None
    ) -> T:
        """`path` is the collection's. AlreadyExists for a name that is taken."""
        return await self.call("POST", path, query, body, decode=decode)

    async def patch(
        self,
        path: str,
        body: Any,
        content_type: str = MERGE_PATCH,
        decode: Decode[T] = as_dict,
        query: Query | None = None,
    ) -> T:
        """With `metadata.resourceVersion` in the body the patch fails if somebody wrote first."""
        return await self.call("PATCH", path, query, body, content_type, decode)

    async def replace(
        self, path: str, body: Any, decode: Decode[T] = as_dict, query: Query | None = None
    ) -> T:
        """PUT: fields that the body lacks are lost, so never with a typed subset of an object."""
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
        """Delete one object, if it still is the one with `uid` and `resource_version` (else 409).

        propagation: Background, Foreground, Orphan or None for the server's default.
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
    """Seconds before a read is repeated, None if repeating it cannot help."""
    if error.status not in _WORTH_ANOTHER_READ or TOO_LARGE_RESOURCE_VERSION in error.causes:
        return None
    if error.retry_after is not None:
        # All who are refused at once are given the same time: they must not come back in step.
        return error.retry_after * (1 + RETRY_AFTER_SPREAD * spread())
    return float(0.1 * 2**attempt * (0.5 + 0.5 * spread()))


def _sentence(error: BaseException) -> str:
    """TimeoutError has no text, others only an address."""
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
    """The error of an answer of 400 and above; what is not a Status (a proxy's page) is quoted."""
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
