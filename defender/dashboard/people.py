"""Who looks at the dashboard and acts on it, and with whose rights.

    Token  a person's own bearer token: kept sealed in their cookie, and used for their writes, so
           that RBAC and the API server's audit log know the person and not Kube Defender
    Proxy  a reverse proxy in front of us has logged them in and says who it is; their writes go
           out under Kube Defender's credentials as an impersonation of them
    Link   whoever has the address that the program printed, on a host of their own (the demo)

Reading is `get defenderpolicies`; acting is `patch defenderpolicies` and
`patch remedyoperationjobs`. The API server checks a write again.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Protocol

import aiohttp
from multidict import CIMultiDict

from defender.auth.identity import Identity
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.transport import Transport

POLICIES, JOBS = "defenderpolicies", "remedyoperationjobs"


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


@dataclass(frozen=True, slots=True)
class Rights:
    """What a person may do here."""

    read: bool = False
    pause: bool = False
    decide: bool = False

    @property
    def acts(self) -> bool:
        return self.pause or self.decide


EVERYTHING = Rights(True, True, True)


class IdentityProvider(Protocol):
    """What `defender.auth.Gate` is. Both raise Unverified."""

    async def identify(self, token: str) -> Identity | None: ...

    async def may(self, who: Identity, verb: str, resource: str, name: str = "") -> bool: ...


async def rights_of(person: Person, gate: IdentityProvider) -> Rights:
    """Raises Unverified."""
    if person.via is Via.LINK:
        return EVERYTHING
    who = person.identity
    return Rights(
        await gate.may(who, "get", POLICIES),
        await gate.may(who, "patch", POLICIES),
        await gate.may(who, "patch", JOBS),
    )


Connect = Callable[[str], Transport]
"""To the same API server as Kube Defender's, with this bearer token and nothing else of ours."""


class Writers:
    """Clients of the API server that are the person.

    kube     Kube Defender's own, for Link and, with impersonation, for Proxy
    connect  None: people with a token of their own can only read
    """

    def __init__(self, kube: Kube, connect: Connect | None = None) -> None:
        self._kube, self._connect = kube, connect

    def for_(self, person: Person) -> bool:
        """Whether there is a way for this person to write at all."""
        return person.via is not Via.TOKEN or self._connect is not None

    @asynccontextmanager
    async def of(self, person: Person) -> AsyncIterator[Kube]:
        match person.via:
            case Via.LINK:
                yield self._kube
            case Via.PROXY:
                yield Kube(Impersonation(self._kube.transport, person.identity), attempts=1)
            case Via.TOKEN:
                assert self._connect is not None
                kube = Kube(self._connect(person.token), attempts=1)
                try:
                    yield kube
                finally:
                    await kube.close()


class Impersonation:
    """A Transport over another one, as the user that `who` is. Closing it closes nothing."""

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

    async def reload(self, seen: int) -> None:
        await self._under.reload(seen)

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Proxy:
    """The reverse proxy that logs people in, and how we know that it is the one who speaks.

    user     header with the user's name; "" for no proxy
    groups   header with the groups, by commas; "" for none
    within   addresses that the proxy speaks from
    secret   what it shows in `secret_header` beside; "" for nothing
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
    """Raises ValueError naming the text."""
    return tuple(ip_network(text) for text in texts)
