"""People who use a site. They are known by:

- Token: a person's own bearer token, sealed in the cookie and used for the person's writes. So RBAC
  and the API server's audit log see the person and not the program.
- Proxy: a reverse proxy that has authenticated the person. Writes use the program's credentials and
  impersonate the person.
- Link: possession of the address that the program printed, on one's own host (the demo).
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Protocol

import aiohttp
from multidict import CIMultiDict

from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.identity import Identity
from kubenode.runtime.kube.transport import Transport


class Via(StrEnum):
    TOKEN = "Token"
    PROXY = "Proxy"
    LINK = "Link"


@dataclass(frozen=True, slots=True)
class Person:
    identity: Identity
    via: Via
    token: str = field(default="", repr=False)

    @property
    def name(self) -> str:
        return self.identity.name


class IdentityProvider(Protocol):
    """Knows users by their tokens, and their rights. Both raise Unverified."""

    async def identify(self, token: str) -> Identity | None: ...

    async def may(self, who: Identity, verb: str, resource: str, name: str = "") -> bool: ...


Connect = Callable[[str], Transport]
"""Returns a connection to the same API server with this bearer token and no credentials of ours."""


class Writers:
    """Clients of the API server that act as the person.

    kube: the program's own client, for Link and, with impersonation, for Proxy.
    connect: None: people with their own token can only read.
    """

    def __init__(self, kube: Kube, connect: Connect | None = None) -> None:
        self._kube, self._connect = kube, connect

    def for_(self, person: Person) -> bool:
        """Return whether this person can write at all."""
        return person.via is not Via.TOKEN or self._connect is not None

    @asynccontextmanager
    async def of(self, person: Person) -> AsyncIterator[Kube]:
        match person.via:
            case Via.LINK:
                yield self._kube
            case Via.PROXY:
                impersonation = Impersonation(self._kube.transport, person.identity)
                yield Kube(impersonation, attempts=1, clock=self._kube.clock)
            case Via.TOKEN:
                assert self._connect is not None
                kube = Kube(self._connect(person.token), attempts=1, clock=self._kube.clock)
                try:
                    yield kube
                finally:
                    await kube.close()


class Impersonation:
    """A transport that impersonates the user `who`. Closing it does not close the transport
    below.
    """

    def __init__(self, under: Transport, who: Identity) -> None:
        self._under, self._who = under, who

    @property
    def generation(self) -> int:
        return self._under.generation

    async def send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109  aiohttp's own
    ) -> aiohttp.ClientResponse:
        given: CIMultiDict[str] = CIMultiDict(headers)
        given.add("Impersonate-User", self._who.name)
        for group in self._who.groups:
            given.add("Impersonate-Group", group)
        return await self._under.send(method, path, body, given, timeout)

    async def reload(self, generation: int) -> None:
        await self._under.reload(generation)

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Proxy:
    """The reverse proxy that authenticates people, and how it is recognized.

    user: header with the user's name, "" for no proxy.
    groups: header with the groups, separated by commas, "" for none.
    within: addresses of the proxy.
    secret: what it sends in `secret_header` in addition, "" for nothing.
    """

    user: str = ""
    groups: str = ""
    within: tuple[IPv4Network | IPv6Network, ...] = ()
    secret_header: str = "X-Proxy-Secret"
    secret: str = field(default="", repr=False)
    prefix: str = ""

    def trusts(self, address: str) -> bool:
        try:
            came_from = ip_address(address)
        except ValueError:
            return False
        return any(came_from in network for network in self.within)


def networks(texts: tuple[str, ...]) -> tuple[IPv4Network | IPv6Network, ...]:
    """Parse the addresses. Raises ValueError that names the invalid text."""
    return tuple(ip_network(text) for text in texts)
