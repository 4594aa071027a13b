"""How other programs ask Kube Defender: the port `Permits`, and its client over HTTP.

In one process the port is `defender.service.Defender` itself; between processes it is HttpPermits.
Both keep the same promises:

- A refusal is an answer, never an exception: `Verdict(allowed=False, reason, message, ...)`.
- Whatever kept the answer from coming is DefenderUnreachable, and that means no.
- Every call may be repeated. Asking twice with the same holder, node and class gives the same
  permit; a stronger class upgrades it; releasing what is released, or gone, is done.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ValidationError

from defender.answers import Breakers, Explanation, Preview, Queue, Status
from defender.connection import ClientTls, DefenderConnection, Unanswered
from defender.requests import RequestsPage
from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import Ask, Reason, Verdict
from kubenode.api.v1alpha1.permit import Holder

LONGEST_ANSWER = 2**16
"""Bytes. A verdict has under 2 KiB; more is not from Kube Defender."""
LONGEST_PAGE = 2**26
"""Bytes of what people read: 1000 requests, or 10,000 permits."""

M = TypeVar("M", bound=BaseModel)

__all__ = ["ClientTls", "DefenderUnreachable", "HttpPermits", "Permits"]


class DefenderUnreachable(Exception):
    """No verdict came: connection, timeout, credentials, or an answer that is none. Treat as no."""


class Permits(Protocol):
    """Leave to disrupt nodes."""

    async def ask(self, ask: Ask) -> Verdict:
        """May this holder disrupt this node now?

        Allowed: `permit` is the name to check, renew and release by, `expires_at` when Kube
        Defender looks whether the holder still lives. With `dry_run` nothing is taken and `permit`
        is empty. Refused: `reason`, `message`, `scope`, `used`, `limit` say why, `look_again_at`
        when to ask again.
        """
        ...

    async def check(self, permit: str, seconds_needed: float) -> Verdict:
        """Whether `permit` is held, not revoked, and valid for at least `seconds_needed` more.

        Stands right before each act; `seconds_needed` is the act's timeout. Nothing is taken. A
        permit that is valid but ends too soon is refused: renew it, then check again.
        """
        ...

    async def renew(self, permit: str, seconds_needed: float = 0) -> Verdict:
        """Prolong `permit`; the holder calls this well before `expires_at`.

        It is then valid for the usual life, or for `seconds_needed` if that is longer. Refused when
        it is revoked, released or unknown: stop, and ask anew.
        """
        ...

    async def release(self, permit: str) -> None:
        """Give `permit` back. Done when this returns; released or unknown ones are done already."""
        ...

    def wakes(self) -> AsyncIterator[Holder]:
        """Holders that are next in line, endless: one of ours asks now instead of later.

        What is lost of it costs time, nothing else.
        """
        ...


class HttpPermits:
    """Permits of a Kube Defender in another process, and what else it tells.

    urls        `http://HOST:PORT` or `https://...` of its replicas; the next one is tried when one
                cannot be reached or does not lead
    token_file  our bearer token, read again for each request, so that it can be rotated
    timeout     seconds for one whole call; short, since the caller holds a worker meanwhile
    tls         whom to trust, and who we are, for https
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
        """Connects again by itself, so it raises nothing and never ends."""
        async for data in self._connection.events("/v1/wakes"):
            try:
                yield Holder.model_validate_json(data, extra="ignore")
            except ValidationError:
                continue  # of a newer version than ours: what is lost costs time alone

    # -- for people ---------------------------------------------------------------------------

    async def status(self) -> Status:
        return await self._read(Status, "/v1/status")

    async def explain(self, node: str) -> Explanation:
        return await self._read(Explanation, f"/v1/nodes/{_part(node)}/explain")

    async def preview(self, node: str) -> Preview:
        return await self._read(Preview, f"/v1/nodes/{_part(node)}/preview")

    async def queue(self) -> Queue:
        return await self._read(Queue, "/v1/queue")

    async def breakers(self) -> Breakers:
        return await self._read(Breakers, "/v1/breakers")

    async def requests(self, since: datetime | None = None, limit: int = 1000) -> RequestsPage:
        """What was asked since an instant, in order of the last ask; at most 1000."""
        after = f"&since={quote(format_time(since))}" if since is not None else ""
        return await self._read(RequestsPage, f"/v1/requests?limit={limit}{after}")

    async def close(self) -> None:
        await self._connection.close()

    # -- calls --------------------------------------------------------------------------------

    async def _verdict(self, method: str, path: str, body: Ask | None = None) -> Verdict:
        """The first replica that can say; else what the last one said."""
        verdict: Verdict | None = None
        for _ in range(len(self._connection)):
            verdict = _model(Verdict, await self._call(method, path, body))
            if verdict.reason is not Reason.STORE_UNAVAILABLE:
                break
            self._connection.turn_to_next()
        assert verdict is not None
        return verdict

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
