"""How other programs ask Kube Defender: the port `Permits`, and its client over HTTP.

In one process the port is `defender.service.Defender` itself; between processes it is HttpPermits.
Both keep the same promises:

- A refusal is an answer, never an exception: `Verdict(allowed=False, reason, message, ...)`.
- Whatever kept the answer from coming is DefenderUnreachable, and that means no.
- Every call may be repeated. Asking twice with the same holder, node and class gives the same
  permit; a stronger class upgrades it; releasing what is released, or gone, is done.
"""

import json
from pathlib import Path
from typing import Any, Protocol

import aiohttp
from pydantic import ValidationError

from kubenode.api.v1alpha1 import Ask, Verdict

LONGEST_ANSWER = 2**16
"""Bytes. A verdict has under 2 KiB; more is not from Kube Defender."""


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

    async def renew(self, permit: str) -> Verdict:
        """Prolong `permit`; the holder calls this well before `expires_at`.

        Refused when it is revoked, released or unknown: stop, and ask anew.
        """
        ...

    async def release(self, permit: str) -> None:
        """Give `permit` back. Done when this returns; released or unknown ones are done already."""
        ...


class HttpPermits:
    """Permits of a Kube Defender in another process.

    url         `http://HOST:PORT` of `kubenode run defender`
    token_file  its bearer token, read again for each request, so that it can be rotated
    timeout     seconds for one whole call; short, since the caller holds a worker meanwhile
    """

    def __init__(
        self, url: str, token_file: str | Path | None = None, *, timeout: float = 5
    ) -> None:
        self._url = url.rstrip("/")
        self._token_file = Path(token_file) if token_file is not None else None
        self._timeout = aiohttp.ClientTimeout(total=timeout)
        self._session: aiohttp.ClientSession | None = None

    async def ask(self, ask: Ask) -> Verdict:
        return _verdict(await self._call("POST", "/v1/permits", ask.to_dict()))

    async def check(self, permit: str, seconds_needed: float) -> Verdict:
        path = f"/v1/permits/{permit}?secondsNeeded={seconds_needed:g}"
        return _verdict(await self._call("GET", path))

    async def renew(self, permit: str) -> Verdict:
        return _verdict(await self._call("POST", f"/v1/permits/{permit}/renew"))

    async def release(self, permit: str) -> None:
        await self._call("POST", f"/v1/permits/{permit}/release")

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _call(self, method: str, path: str, body: Any = None) -> bytes:
        """The body of a 2xx answer. Raises DefenderUnreachable for everything else."""
        tried = f"{method} {self._url}{path.partition('?')[0]}"
        if self._session is None:
            self._session = aiohttp.ClientSession()
        try:
            async with self._session.request(
                method,
                self._url + path,
                json=body,
                headers=self._headers(),
                timeout=self._timeout,
                allow_redirects=False,
            ) as answer:
                raw = await answer.content.read(LONGEST_ANSWER)
                if answer.status // 100 == 2:
                    return raw
                raise DefenderUnreachable(f"{tried}: {answer.status} {_why(raw)}")
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise DefenderUnreachable(f"{tried}: {error or type(error).__name__}") from error

    def _headers(self) -> dict[str, str]:
        if self._token_file is None:
            return {}
        return {"Authorization": f"Bearer {self._token_file.read_text().strip()}"}


def _verdict(raw: bytes) -> Verdict:
    try:
        return Verdict.model_validate_json(raw, extra="ignore")
    except ValidationError as error:
        raise DefenderUnreachable(f"Kube Defender's answer is no verdict: {error}") from error


def _why(raw: bytes) -> str:
    """The server's own sentence, or what it sent instead, cut to a line."""
    try:
        return str(json.loads(raw)["message"])
    except (ValueError, KeyError, TypeError):
        return raw.decode(errors="replace")[:200]
