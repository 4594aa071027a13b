"""The connections to all members, from the caches of MemberClusters and Secrets.

A connection is built when it is first needed, and again as soon as the Secret has other content.
Calls that are under way end with the connection on which they began.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

import msgspec

from captain.members.client import CALL_SECONDS, RemoteMember
from captain.members.cluster import Member, MemberUnreachable
from captain.members.kubeconfig import KubeconfigProblem, find_expiry, parse_kubeconfig
from captain.members.transport import MemberTransport
from kubenode.api.v1alpha1 import MemberCluster
from kubenode.api.v1alpha1.membercluster import KUBECONFIG_SECRET_TYPE, MemberReason
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.client import Kube, RequestMeter
from kubenode.runtime.kube.objects import KubeObjectMeta, structs

REQUESTS_PER_SECOND, REQUESTS_AT_ONCE = 5.0, 20.0
"""Limit of requests to one member."""


T_co = TypeVar("T_co", covariant=True)


class ObjectCache(Protocol[T_co]):
    """The objects of an informer."""

    def get(self, key: str, /) -> T_co | None: ...


class KubeconfigData(msgspec.Struct, gc=False):
    """Data of a Secret. Other keys are not kept in memory."""

    kubeconfig: bytes = b""


class KubeconfigSecret(msgspec.Struct, gc=False):
    metadata: KubeObjectMeta
    data: KubeconfigData = msgspec.field(default_factory=KubeconfigData)


decode_secret = structs(KubeconfigSecret)


@dataclass(frozen=True, slots=True)
class MemberConnection:
    """A client, or the problem of the kubeconfig that prevents one.

    raw: the kubeconfig from which it was built.
    expires_at: when its credentials expire, None if unknown.
    """

    raw: bytes
    kube: Kube | None
    problem: str = ""
    expires_at: datetime | None = None


class MemberConnections:
    """Implements `captain.members.cluster.Members`.

    namespace: that of the Secrets.
    """

    def __init__(
        self,
        clusters: ObjectCache[MemberCluster],
        secrets: ObjectCache[KubeconfigSecret],
        namespace: str,
        clock: Clock,
        meter: RequestMeter | None = None,
    ) -> None:
        self._clusters, self._secrets = clusters, secrets
        self._namespace, self._clock, self._meter = namespace, clock, meter
        self._open: dict[str, MemberConnection] = {}
        self._retired: list[tuple[float, Kube]] = []

    def get(self, name: str) -> Member | None:
        cluster = self._clusters.get(name)
        if cluster is None:
            return None
        return RemoteMember(name, cluster.metadata.labels, lambda: self.connect(name))

    def connect(self, name: str) -> Kube:
        """Return the client of a member with its current credentials. Raises MemberUnreachable."""
        cluster = self._clusters.get(name)
        if cluster is None:
            text = "the MemberCluster was deleted"
            raise MemberUnreachable(name, MemberReason.SECRET_MISSING, text)
        if cluster.spec.paused:
            text = "the member is paused; remove spec.paused to go on"
            raise MemberUnreachable(name, MemberReason.PAUSED, text)
        connection = self._current(name, self._read_secret(name, cluster.spec.kubeconfig_ref))
        if connection.kube is None:
            raise MemberUnreachable(name, MemberReason.INVALID_KUBECONFIG, connection.problem)
        return connection.kube

    def _read_secret(self, name: str, reference: str) -> bytes:
        secret = self._secrets.get(f"{self._namespace}/{reference}")
        if secret is not None:
            return secret.data.kubeconfig
        text = (
            f"namespace {self._namespace} has no Secret {reference} of type"
            f" {KUBECONFIG_SECRET_TYPE}; create it, or run `kubenode member import {name}`"
        )
        raise MemberUnreachable(name, MemberReason.SECRET_MISSING, text)

    def _current(self, name: str, raw: bytes) -> MemberConnection:
        connection = self._open.get(name)
        if connection is None or connection.raw != raw:
            self.drop(name)
            connection = self._open[name] = self._build(raw)
        return connection

    def _build(self, raw: bytes) -> MemberConnection:
        try:
            credentials = parse_kubeconfig(raw)
            transport = MemberTransport(credentials)
        except KubeconfigProblem as problem:
            return MemberConnection(raw, None, str(problem))
        kube = Kube(
            transport,
            timeout=CALL_SECONDS,
            clock=self._clock,
            rate=REQUESTS_PER_SECOND,
            burst=REQUESTS_AT_ONCE,
            attempts=1,
            meter=self._meter,
        )
        return MemberConnection(raw, kube, expires_at=find_expiry(credentials))

    def find_expiry(self, name: str) -> datetime | None:
        """Return when the credentials in use expire, None if unknown."""
        connection = self._open.get(name)
        return None if connection is None else connection.expires_at

    def drop(self, name: str) -> None:
        """Retire the connection of a member, if there is one."""
        connection = self._open.pop(name, None)
        if connection is not None and connection.kube is not None:
            self._retired.append((self._clock.monotonic() + CALL_SECONDS, connection.kube))

    async def sweep(self) -> None:
        """Close retired connections on which no call can be under way."""
        now = self._clock.monotonic()
        idle = [kube for end, kube in self._retired if end <= now]
        self._retired = [(end, kube) for end, kube in self._retired if end > now]
        for kube in idle:
            await kube.close()

    async def close(self) -> None:
        for name in list(self._open):
            self.drop(name)
        for _, kube in self._retired:
            await kube.close()
        self._retired = []

    def __len__(self) -> int:
        """Return the number of members with a client."""
        return sum(connection.kube is not None for connection in self._open.values())
