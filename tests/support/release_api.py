"""Releases at an API server in memory, and who wrote what. One transport for each bearer token."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import aiohttp
from support.direct_server import DirectResponse

Raw = dict[str, Any]


@dataclass(frozen=True)
class ReleaseWrite:
    """A patch that was stored. token: of the connection."""

    token: str
    name: str
    spec: Raw


class ReleaseApiDouble:
    """releases: by name. refusals: message of a 403, by token. writes: patches that were stored."""

    def __init__(self, *releases: Raw) -> None:
        self.releases = {each["metadata"]["name"]: each for each in releases}
        self.refusals: dict[str, str] = {}
        self.writes: list[ReleaseWrite] = []

    def connect(self, token: str) -> "ReleaseTransport":
        return ReleaseTransport(self, token)


class ReleaseTransport:
    """Implements Transport for paths of Releases."""

    generation = 0

    def __init__(self, api: ReleaseApiDouble, token: str) -> None:
        self._api, self._token = api, token

    async def send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109  aiohttp's own
    ) -> aiohttp.ClientResponse:
        code, answer = self._answer(method, path.partition("?")[0].rpartition("/")[2], body)
        return cast("aiohttp.ClientResponse", DirectResponse(code, json.dumps(answer).encode()))

    def _answer(self, method: str, name: str, body: bytes | None) -> tuple[int, Raw]:
        release = self._api.releases.get(name)
        if release is None:
            return 404, _status(404, "NotFound", f"{name} not found")
        if method == "GET":
            return 200, release
        if message := self._api.refusals.get(self._token):
            return 403, _status(403, "Forbidden", message)
        spec = json.loads(body or b"{}")["spec"]
        release["spec"] |= spec
        self._api.writes.append(ReleaseWrite(self._token, name, spec))
        return 200, release

    async def reload(self, generation: int) -> None:
        """There are no credentials."""

    async def close(self) -> None:
        """Nothing is open."""


def _status(code: int, reason: str, message: str) -> Raw:
    return {"kind": "Status", "code": code, "reason": reason, "message": message}
