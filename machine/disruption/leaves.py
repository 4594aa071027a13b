"""The permits of our holders: asked for at the times that Kube Defender names, kept, given back.

What is held is read from the Permits themselves, so a restart forgets nothing; what this process
heard since is remembered until the cache shows it too.
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
from kubenode.runtime.kube.objects import ObjectMeta, structs
from kubenode.runtime.kube.shared import MakeInformer
from machine.disruption.port import DISRUPTION, DisruptionRequest

K = TypeVar("K")
V = TypeVar("V")

ON_NODE = "node"
NEEDED_SECONDS = 60.0
"""For which a permit must be good when an act begins."""
RENEW_BEFORE = timedelta(minutes=5)
MOST_KNOWN = 16384
OVER = frozenset({"Released", "Revoked"})


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
    """A Permit, as far as it tells whose node it is."""

    metadata: ObjectMeta
    spec: _PermitSpec = msgspec.field(default_factory=_PermitSpec)
    status: _PermitStatus = msgspec.field(default_factory=_PermitStatus)

    @property
    def key(self) -> "Key":
        return self.spec.node_name, self.spec.holder.kind, self.spec.holder.uid


Key = tuple[str, str, str]
"""Node, and kind and uid of the holder."""


@dataclass(frozen=True, slots=True)
class _LastVerdict:
    verdict: Verdict
    weight: int
    renew: datetime | None = None


def permits_informer(
    kube: Kube, clock: Clock, make: MakeInformer = Informer
) -> Informer[NodePermit]:
    path = paths.custom(Permit.resource.plural)
    informer: Informer[NodePermit] = make(
        kube, path, structs(NodePermit), clock=clock, name="permits of machines"
    )
    informer.add_index(ON_NODE, lambda permit: (permit.spec.node_name,))
    return informer


class Leaves:
    """permits  Kube Defender; None: nobody said where it is, and nothing is allowed"""

    def __init__(
        self, permits: Permits | None, informer: Informer[NodePermit], clock: Clock
    ) -> None:
        self._permits, self._informer, self._clock = permits, informer, clock
        self._heard: dict[Key, _LastVerdict] = {}
        self._given_back: dict[str, None] = {}

    def held(self, node: str, holder: Holder) -> str:
        """Name of the permit that the holder has on the node, "" for none."""
        heard = self._heard.get(_key(node, holder))
        if heard is not None and heard.verdict.permit:
            return heard.verdict.permit
        found = self._shown(node, holder)
        return found.metadata.name if found is not None else ""

    def renew_at(self, node: str, holder: Holder) -> datetime | None:
        heard = self._heard.get(_key(node, holder))
        return heard.renew if heard is not None else None

    async def of(self, wish: DisruptionRequest, node: str) -> Verdict | str:
        """Whether the act may be done now; why there is no answer, which means no."""
        if self._permits is None:
            return "no Kube Defender is known that could be asked"
        try:
            return await self._of(wish, node, self._permits)
        except DefenderUnreachable as error:
            return f"Kube Defender cannot be reached: {error}"

    async def _of(self, wish: DisruptionRequest, node: str, permits: Permits) -> Verdict:
        now, key, class_ = self._clock.now(), _key(node, wish.holder), DISRUPTION[wish.class_]
        heard = self._heard.get(key)
        enough = heard is not None and heard.weight >= class_.weight
        if heard is not None and enough and heard.verdict.allowed:
            verdict = await self._still(permits, heard, wish, now)
            if verdict.allowed or verdict.reason is Reason.STORE_UNAVAILABLE:
                return self._remember(key, verdict, class_) if verdict.allowed else verdict
        elif heard is not None and not heard.verdict.allowed and not _due(heard.verdict, now):
            return heard.verdict
        ask = Ask(
            operation=wish.operation,
            class_=class_,
            node=node,
            holder=wish.holder,
            severity=wish.severity,
        )
        return self._remember(key, await permits.ask(ask), class_)

    async def _still(
        self, permits: Permits, heard: _LastVerdict, wish: DisruptionRequest, now: datetime
    ) -> Verdict:
        """Checked before an act begins, renewed in time."""
        permit = heard.verdict.permit
        if heard.renew is None or now >= heard.renew:
            return await permits.renew(permit, NEEDED_SECONDS)
        return heard.verdict if wish.begun else await permits.check(permit, NEEDED_SECONDS)

    async def give_back(self, node: str, holder: Holder) -> bool:
        """Whether the holder has no permit on the node any more."""
        name, key = self.held(node, holder), _key(node, holder)
        if name and self._permits is not None:
            try:
                await self._permits.release(name)
            except DefenderUnreachable:
                return False
            _bounded(self._given_back, name, None)
        self._heard.pop(key, None)
        return not name or self._permits is not None

    def wake(self, holder: Holder) -> None:
        """The holder is next in line: it asks at once, whatever it was told."""
        for key, heard in list(self._heard.items()):
            if key[1:] == (holder.kind, holder.uid) and not heard.verdict.allowed:
                del self._heard[key]

    def _remember(self, key: Key, verdict: Verdict, class_: Disruption) -> Verdict:
        renew = None
        if verdict.allowed and verdict.expires_at is not None:
            life = verdict.expires_at - self._clock.now()
            renew = verdict.expires_at - max(min(RENEW_BEFORE, life / 2), timedelta(0))
        weight = (verdict.class_ or class_).weight
        _bounded(self._heard, key, _LastVerdict(verdict, weight, renew))
        return verdict

    def _shown(self, node: str, holder: Holder) -> NodePermit | None:
        return next(
            (
                permit
                for permit in self._informer.by(ON_NODE, node)
                if permit.key == _key(node, holder)
                and permit.status.state not in OVER
                and permit.metadata.name not in self._given_back
            ),
            None,
        )


def _key(node: str, holder: Holder) -> Key:
    return node, holder.kind, holder.uid


def _due(verdict: Verdict, now: datetime) -> bool:
    return verdict.look_again_at is None or now >= verdict.look_again_at


def _bounded(kept: dict[K, V], key: K, value: V) -> None:
    kept.pop(key, None)
    kept[key] = value
    while len(kept) > MOST_KNOWN:
        del kept[next(iter(kept))]
