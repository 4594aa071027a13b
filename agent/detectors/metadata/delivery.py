"""Delivers documents to Host Doctor: the newest one of each kind, with retries.

A newer document replaces one that was not delivered yet, so at most one document of each kind waits
while the operator is unreachable.
"""

import asyncio
import json
import logging
from contextlib import suppress
from typing import Any

import aiohttp

from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.transport import CredentialsError, Transport

log = logging.getLogger(__name__)

SECONDS = 10.0
FIRST, LONGEST = 1.0, 60.0
"""Seconds of the first and of the longest wait after a failure."""
AGAIN = (401, 403, 404, 408, 409, 429)
"""4xx statuses that are retried, because operator or identity may not be ready yet."""


class NotTaken(Exception):
    """Host Doctor did not take the document. final: it would refuse it again."""

    def __init__(self, why: str, *, final: bool = False) -> None:
        super().__init__(why)
        self.final = final


class HostDoctor:
    """`POST /v1/hosts/AGENT/events` at the remedy operator, with the agent's certificate."""

    def __init__(self, operator: Transport, agent: str) -> None:
        self._operator, self._path = operator, f"/v1/hosts/{agent}/events"

    async def tell(self, transport: str, payload: Any) -> None:
        """Deliver one document. Raises NotTaken."""
        body = json.dumps({"transport": transport, "payload": payload}).encode()
        headers = {"Content-Type": "application/json"}
        limits = aiohttp.ClientTimeout(total=SECONDS)
        generation = self._operator.generation
        try:
            answer = await self._operator.send("POST", self._path, body, headers, limits)
            async with answer:
                text = (await answer.text())[:200]
        except (aiohttp.ClientError, TimeoutError, OSError, CredentialsError) as error:
            # The failure may only be an expired client certificate.
            await self._fresh(generation)
            raise NotTaken(str(error) or type(error).__name__) from error
        if answer.status == 401:
            await self._fresh(generation)
        if answer.status == 200:
            return
        final = 400 <= answer.status < 500 and answer.status not in AGAIN
        raise NotTaken(f"{answer.status} {text}", final=final)

    async def _fresh(self, generation: int) -> None:
        with suppress(CredentialsError):
            await self._operator.reload(generation)


class Teller:
    def __init__(self, doctor: HostDoctor, clock: Clock) -> None:
        self._doctor, self._clock = doctor, clock
        self._waiting: dict[str, Any] = {}
        self._news = asyncio.Event()
        self.untold = 0
        """Number of documents that Host Doctor refused for good."""

    def tell(self, transport: str, payload: Any) -> None:
        """Set the newest document of a kind. Never blocks."""
        self._waiting[transport] = payload
        self._news.set()

    async def run(self) -> None:
        wait = FIRST
        while True:
            await self._news.wait()
            self._news.clear()
            if await self._once():
                wait = FIRST
                continue
            await self._clock.sleep(wait)
            wait = min(wait * 2, LONGEST)
            self._news.set()

    async def _once(self) -> bool:
        """Deliver all waiting documents; return whether none is left to retry."""
        for transport, payload in list(self._waiting.items()):
            try:
                await self._doctor.tell(transport, payload)
            except NotTaken as error:
                extra = {"transport": transport, "error": str(error)}
                if not error.final:
                    log.warning("host doctor was not told", extra=extra)
                    return False
                self.untold += 1
                log.error("host doctor refuses what this machine was told", extra=extra)
            if self._waiting.get(transport) is payload:
                del self._waiting[transport]
        return True
