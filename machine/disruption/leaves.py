"""Request, renew and release the permits of holders.

Held permits are read from the Permit objects, so a restart loses none. Later answers of Kube
Defender are kept in memory until the cache shows them.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

import msgspec

from defender.client import DefenderUnreachable, Permits
from kubenode.api.v1alpha1 import Ask, Disruption, Permit, Reason, Verdict
from kubenode.api.v1alpha1.permit import Holder
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.informers import MakeInformer
from kubenode.runtime.kube.objects import KubeObjectMeta, structs
from machine.disruption.port import DISRUPTION, DisruptionRequest

K = TypeVar("K")
V = TypeVar("V")

ON_NODE = "node"
"""Index of Permits by node."""
NEEDED_SECONDS = 60.0
"""Seconds for which a permit must remain valid when an act begins."""
RENEW_BEFORE = timedelta(minutes=5)
"""Time before its expiry at which a permit is renewed; half of its life if that is shorter."""
MOST_KNOWN = 16384
"""Greatest number of verdicts, and of released permits, to remember."""
ENDED_STATES = frozenset({"Released", "Revoked"})
"""States of a Permit that is no longer held."""


class _PermitHolder(msgspec.Struct, gc=False):
    kind: str = ""
    uid: str = ""


class _PermitSpec(msgspec.Struct, rename="camel", gc=False):
    class_: str = msgspec.field(default="", name="class")
    node_name: str = ""
    holder: _PermitHolder = msgspec.field(default_factory=_PermitHolder)


class _PermitStatus(msgspec.Struct, gc=False):
    state: str = ""


class NodePermit(msgspec.Struct, gc=False):
    """The fields of a Permit that tell which holder has which node."""

    metadata: KubeObjectMeta
    spec: _PermitSpec = msgspec.field(default_factory=_PermitSpec)
    status: _PermitStatus = msgspec.field(default_factory=_PermitStatus)

    @property
    def key(self) -> "Key":
        return self.spec.node_name, self.spec.holder.kind, self.spec.holder.uid


Key = tuple[str, str, str]
"""Node, kind of the holder, uid of the holder."""


@dataclass(frozen=True, slots=True)
class _LastVerdict:
    """The last verdict for a node and holder.

    weight: weight of the disruption class that was granted or requested.
    renew: when to renew the permit. None: at the next use.
    """

    verdict: Verdict
    weight: int
    renew: datetime | None = None


def permits_informer(
    kube: Kube, clock: Clock, make: MakeInformer = Informer
) -> Informer[NodePermit]:
    """Return an informer of Permits, indexed by node."""
    path = paths.custom(Permit.resource.plural)
    informer: Informer[NodePermit] = make(
        kube, path, structs(NodePermit), clock=clock, name="permits of machines"
    )
    informer.add_index(ON_NODE, lambda permit: (permit.spec.node_name,))
    return informer


class Leaves:
    """Permits of the operator's holders.

    permits: client of Kube Defender. None if none is configured; then nothing is allowed.
    """

    def __init__(
        self, permits: Permits | None, informer: Informer[NodePermit], clock: Clock
    ) -> None:
        self._permits, self._informer, self._clock = permits, informer, clock
        self._last_verdicts: dict[Key, _LastVerdict] = {}
        self._given_back: dict[str, None] = {}

    def find_permit(self, node: str, holder: Holder) -> str:
        """Return the name of the permit that the holder has on the node, "" for none."""
        last = self._last_verdicts.get(_key(node, holder))
        if last is not None and last.verdict.permit:
            return last.verdict.permit
        permit = self._shown(node, holder)
        return permit.metadata.name if permit is not None else ""

    def renew_at(self, node: str, holder: Holder) -> datetime | None:
        """Return the time at which the permit is to be renewed, None if unknown."""
        last = self._last_verdicts.get(_key(node, holder))
        return last.renew if last is not None else None

    async def of(self, wish: DisruptionRequest, node: str) -> Verdict | str:
        """Return Kube Defender's verdict, or the error as text if there is none. An error
        means no.
        """
        if self._permits is None:
            return "no Kube Defender is known that could be asked"
        try:
            return await self._of(wish, node, self._permits)
        except DefenderUnreachable as error:
            return f"Kube Defender cannot be reached: {error}"

    async def _of(self, wish: DisruptionRequest, node: str, permits: Permits) -> Verdict:
        """Return the verdict: a held permit is checked or renewed; a recent refusal is repeated."""
        now, key, class_ = self._clock.now(), _key(node, wish.holder), DISRUPTION[wish.class_]
        last = self._last_verdicts.get(key)
        enough = last is not None and last.weight >= class_.weight
        if last is not None and enough and last.verdict.allowed:
            verdict = await self._still(permits, last, wish, now)
            if verdict.allowed or verdict.reason is Reason.STORE_UNAVAILABLE:
                return self._remember(key, verdict, class_) if verdict.allowed else verdict
        elif last is not None and not last.verdict.allowed and not _due(last.verdict, now):
            return last.verdict
        ask = Ask(
            operation=wish.operation,
            class_=class_,
            node=node,
            holder=wish.holder,
            severity=wish.severity,
        )
        return self._remember(key, await permits.ask(ask), class_)

    async def _still(
        self, permits: Permits, last: _LastVerdict, wish: DisruptionRequest, now: datetime
    ) -> Verdict:
        """Check the permit before an act begins, and renew it when it is time."""
        permit = last.verdict.permit
        if last.renew is None or now >= last.renew:
            return await permits.renew(permit, NEEDED_SECONDS)
        return last.verdict if wish.begun else await permits.check(permit, NEEDED_SECONDS)

    async def give_back(self, node: str, holder: Holder) -> bool:
        """Release the permit. Return whether the holder has none on the node any more."""
        name, key = self.find_permit(node, holder), _key(node, holder)
        if name and self._permits is not None:
            try:
                await self._permits.release(name)
            except DefenderUnreachable:
                return False
            _bounded(self._given_back, name, None)
        self._last_verdicts.pop(key, None)
        return not name or self._permits is not None

    def wake(self, holder: Holder) -> None:
        """Drop the refusals of a holder that is next in line, so that it asks again at once."""
        for key, last in list(self._last_verdicts.items()):
            if key[1:] == (holder.kind, holder.uid) and not last.verdict.allowed:
                del self._last_verdicts[key]

    def _remember(self, key: Key, verdict: Verdict, class_: Disruption) -> Verdict:
        """Keep the verdict, with the time at which its permit is to be renewed."""
        renew = None
        if verdict.allowed and verdict.expires_at is not None:
            life = verdict.expires_at - self._clock.now()
            renew = verdict.expires_at - max(min(RENEW_BEFORE, life / 2), timedelta(0))
        weight = (verdict.class_ or class_).weight
        _bounded(self._last_verdicts, key, _LastVerdict(verdict, weight, renew))
        return verdict

    def _shown(self, node: str, holder: Holder) -> NodePermit | None:
        """Return the permit of the holder in the cache, None for none."""
        return next(
            (
                permit
                for permit in self._informer.by(ON_NODE, node)
                if permit.key == _key(node, holder)
                and permit.status.state not in ENDED_STATES
                and permit.metadata.name not in self._given_back
            ),
            None,
        )


def _key(node: str, holder: Holder) -> Key:
    return node, holder.kind, holder.uid


def _due(verdict: Verdict, now: datetime) -> bool:
    """Return whether a refused request may be repeated."""
    return verdict.look_again_at is None or now >= verdict.look_again_at


def _bounded(entries: dict[K, V], key: K, value: V) -> None:
    """Store the value as the newest one, and drop the oldest beyond MOST_KNOWN."""
    entries.pop(key, None)
    entries[key] = value
    while len(entries) > MOST_KNOWN:
        del entries[next(iter(entries))]
