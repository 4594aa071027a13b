"""Uploads a bundle to the operator, which stores it for the cluster's administrators."""

import asyncio
from pathlib import Path
from typing import Protocol

import aiohttp

from agent.host import HostError
from kubenode.runtime.kube.transport import CredentialsError, Transport

UPLOAD_SECONDS = 60.0
LONGEST_REASON = 300
_HEADERS = {"Content-Type": "application/gzip"}


class BundleUploader(Protocol):
    async def put(self, path: Path) -> str:
        """Upload the bundle; return its location, for people.

        Raises HostError if it fails; the bundle then exists on the host only.
        """
        ...


class OperatorStore:
    """Upload by `PUT /v1/hosts/AGENT/bundles/NAME` to the remedy operator, under the agent's
    certificate.
    """

    def __init__(self, operator: Transport, agent: str) -> None:
        self._operator, self._agent = operator, agent

    async def put(self, path: Path) -> str:
        limits = aiohttp.ClientTimeout(total=UPLOAD_SECONDS)
        where = f"/v1/hosts/{self._agent}/bundles/{path.name}"
        try:
            body = await asyncio.to_thread(path.read_bytes)
            answer = await self._operator.send("PUT", where, body, _HEADERS, limits)
            async with answer:
                text = (await answer.text())[:LONGEST_REASON].strip()
        except (aiohttp.ClientError, TimeoutError, OSError, CredentialsError) as error:
            why = str(error) or type(error).__name__
            raise HostError(f"the operator takes no bundle: {why}") from error
        if answer.status != 201:
            raise HostError(f"the operator takes no bundle: {answer.status} {text}")
        return text
