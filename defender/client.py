"""Client of Kube Defender: the interface `Permits`, and its implementation over HTTP.

Within one process `defender.service.Defender` implements the interface; between processes
HttpPermits does. Both guarantee:

- A refusal is a verdict, never an exception: `Verdict(allowed=False, reason, message, ...)`.
- DefenderUnreachable means that no verdict arrived. Treat it as a refusal.
- Every call is idempotent. Asking again with the same holder, node and class yields the same
  permit; a stronger class upgrades it; releasing a released or missing permit succeeds.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ValidationError

from defender.answers import READY, Breakers, Explanation, Preview, Queue, Status
from defender.decision.requests import RequestsPage
from defender.server.connection import ClientTls, DefenderConnection, Unanswered
from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import Ask, Reason, Verdict
from kubenode.api.v1alpha1.permit import Holder

LONGEST_ANSWER = 2**16
"""Greatest size of a verdict in bytes. A regular one has less than 2 KiB."""
LONGEST_PAGE = 2**26
"""Greatest size of other answers in bytes: 1000 requests, or 10,000 permits."""

M = TypeVar("M", bound=BaseModel)
R = TypeVar("R", Status, Explanation)

__all__ = ["ClientTls", "DefenderUnreachable", "HttpPermits", "Permits"]


class DefenderUnreachable(Exception):
    """No verdict arrived: connection, timeout, credentials or an invalid answer. Treat it as a
    refusal.
    """


class Permits(Protocol):
    """Permission to disrupt nodes."""

    async def ask(self, ask: Ask) -> Verdict:
        """Ask whether the holder may disrupt the node now.

        Allowed: `permit` is the name for check, renew and release; `expires_at` is when Kube
            Defender checks whether the holder still exists. With `dry_run` nothing is granted and
            `permit` is "".
        Refused: `reason`, `message`, `scope`, `used`, `limit` say why, `look_again_at` when to ask
            again.
        """
        ...

    async def check(self, permit: str, seconds_needed: float) -> Verdict:
        """Return whether the permit is held, not revoked and valid for `seconds_needed` more.

        Call it right before each act with the act's timeout. It changes nothing. A valid permit
        that ends too soon is refused: renew it and check again.
        """
        ...

    async def renew(self, permit: str, seconds_needed: float = 0) -> Verdict:
        """Extend the permit. The holder calls this well before `expires_at`.

        The permit is then valid for its usual life, or for `seconds_needed` if that is longer. A
        revoked, released or unknown permit is refused: stop and ask anew.
        """
        ...

    async def release(self, permit: str) -> None:
        """Release the permit. Succeeds for one that is released or unknown. Raises
        DefenderUnreachable.
        """
        ...

    def wakes(self) -> AsyncIterator[Holder]:
        """Yield holders that are next in line, without end. Such a holder should ask at once.

        A lost wake-up only costs time.
        """
        ...


class HttpPermits:
    """Client of a Kube Defender in another process.

    urls: `http://HOST:PORT` or `https://...` of its replicas. If one is unreachable or not the
        leader,
        the next one is tried.
    token_file: the bearer token, read for each request so that it can be rotated. None: no token.
    timeout: seconds for a call, short because the caller blocks a worker.
    tls: authorities and client certificate for https.
    """

    def __init__(
        self,
        urls: str | Sequence[str],
        token_file: str | Path | None = None,
        *,
        timeout: float = 5,
        tls: ClientTls | None = None,
    ) -> None:
        self._connection = DefenderConnection(urls, token_file, timeout=timeout, tls=tls)

    async def ask(self, ask: Ask) -> Verdict:
        return await self._verdict("POST", "/v1/permits", ask)

    async def check(self, permit: str, seconds_needed: float) -> Verdict:
        path = f"/v1/permits/{_part(permit)}?secondsNeeded={seconds_needed:g}"
        return await self._verdict("GET", path)

    async def renew(self, permit: str, seconds_needed: float = 0) -> Verdict:
        path = f"/v1/permits/{_part(permit)}/renew?secondsNeeded={seconds_needed:g}"
        return await self._verdict("POST", path)

    async def release(self, permit: str) -> None:
        await self._call("POST", f"/v1/permits/{_part(permit)}/release")

    async def wakes(self) -> AsyncGenerator[Holder, None]:
        """Yield holders that are next in line. Reconnects by itself, so it neither raises nor
        ends.
        """
        async for data in self._connection.events("/v1/wakes"):
            try:
                yield Holder.model_validate_json(data, extra="ignore")
            except ValidationError:
                continue  # from a newer version; a lost wake-up only costs time

    # -- for people ---------------------------------------------------------------------------

    async def status(self) -> Status:
        return await self._read_ready(Status, "/v1/status")

    async def explain(self, node: str) -> Explanation:
        return await self._read_ready(Explanation, f"/v1/nodes/{_part(node)}/explain")

    async def preview(self, node: str) -> Preview:
        return await self._read(Preview, f"/v1/nodes/{_part(node)}/preview")

    async def queue(self) -> Queue:
        return await self._read(Queue, "/v1/queue")

    async def breakers(self) -> Breakers:
        return await self._read(Breakers, "/v1/breakers")

    async def requests(self, since: datetime | None = None, limit: int = 1000) -> RequestsPage:
        """Return the requests since a time, in order of the last ask, at most 1000."""
        after = f"&since={quote(format_time(since))}" if since is not None else ""
        return await self._read(RequestsPage, f"/v1/requests?limit={limit}{after}")

    async def close(self) -> None:
        await self._connection.close()

    # -- calls --------------------------------------------------------------------------------

    async def _verdict(self, method: str, path: str, body: Ask | None = None) -> Verdict:
        async def ask() -> Verdict:
            return _model(Verdict, await self._call(method, path, body))

        return await self._first(ask, lambda v: v.reason is not Reason.STORE_UNAVAILABLE)

    async def _read_ready(self, model: type[R], path: str) -> R:
        return await self._first(lambda: self._read(model, path), lambda a: a.ready == READY)

    async def _first(self, ask: Callable[[], Awaitable[M]], able: Callable[[M], bool]) -> M:
        """Return the answer of the first replica that is able to answer, else that of the last
        one.
        """
        answer: M | None = None
        for _ in range(len(self._connection)):
            answer = await ask()
            if able(answer):
                break
            self._connection.turn_to_next()
        assert answer is not None
        return answer

    async def _read(self, model: type[M], path: str) -> M:
        return _model(model, await self._call("GET", path, longest=LONGEST_PAGE))

    async def _call(
        self, method: str, path: str, body: Ask | None = None, longest: int = LONGEST_ANSWER
    ) -> bytes:
        try:
            given = None if body is None else body.to_dict()
            return await self._connection.call(method, path, given, longest)
        except Unanswered as error:
            raise DefenderUnreachable(str(error)) from error


def _part(name: str) -> str:
    return quote(name, safe="")


def _model(model: type[M], raw: bytes) -> M:
    try:
        return model.model_validate_json(raw, extra="ignore")
    except ValidationError as error:
        what = "verdict" if model is Verdict else model.__name__
        raise DefenderUnreachable(f"Kube Defender's answer is no {what}: {error}") from error
