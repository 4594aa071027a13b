"""Count the pods that our acts displaced and that are still pending.

Each permit for pods or a node records which controllers had pods on the node and how many, because
new pods get new names. Pending pods of these controllers count as displaced, for each controller at
most as many as it lost. Pods that are pending for other reasons do not count.

While the pods of a permit cannot be recorded, each pending pod created since its grant may be one
of them, so it counts.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from defender.decision.control import RiskControl
from defender.decision.coverage import BY_DEFAULT
from defender.decision.ledger import LedgerPermit
from kubenode.api.v1alpha1 import Permit
from kubenode.runtime.clock import Clock
from kubenode.runtime.fence import Fence
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import KubeError, NotFound
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.informers import MakeInformer
from kubenode.runtime.kube.objects import KubeOwnerReference, Pod, structs
from kubenode.runtime.process import Part

log = logging.getLogger(__name__)

SECONDS = 1.0
"""Interval of counts and of recording, in seconds."""
MOST_CONTROLLERS = 256
"""Greatest number of controllers to record for a permit."""
YOUNG = timedelta(seconds=5)
"""Age below which a pending pod counts as being scheduled."""
REMEMBERED = timedelta(minutes=30)
"""Time after the release of a permit for which pending pods may be due to it."""
UNRECORDED = timedelta(seconds=30)
"""Time after which a permit without recorded pods counts with all that it may have displaced."""
CLOCKS = timedelta(minutes=1)
"""Assumed lag of the API server's clock, which sets the creation times of pods."""
STAYING = ("DaemonSet", "Node")
"""Kinds of controllers whose pods belong to the node. `Node` owns the mirrors of static pods."""
MIRROR = "kubernetes.io/config.mirror"


class _List(msgspec.Struct):
    items: list[Pod] = []


_pods = structs(_List)


def controllers(pods: Iterable[Pod]) -> dict[str, int]:
    """Return the number of pods that would be displaced, by the UID of their controller.

    Pods without a controller are not recreated and do not count. At most MOST_CONTROLLERS are
    returned, those with the most pods.
    """
    counts: Counter[str] = Counter()
    for pod in pods:
        owner = _controller(pod)
        if owner is None or pod.status.phase in ("Succeeded", "Failed"):
            continue
        if owner.kind not in STAYING and MIRROR not in pod.metadata.annotations:
            counts[owner.uid] += 1
    return dict(counts.most_common(MOST_CONTROLLERS))


def _controller(pod: Pod) -> KubeOwnerReference | None:
    return next((o for o in pod.metadata.owner_references if o.controller), None)


@dataclass(frozen=True, slots=True)
class Lost:
    """Pods that controllers lost by acts under permits.

    known: number of pods by the UID of the controller.
    since: the first grant whose pods are not recorded: each pod that became pending since may be
        due
        to it. None if all are recorded.
    """

    known: Mapping[str, int]
    since: datetime | None = None


def lost(permits: Iterable[LedgerPermit], now: datetime) -> Lost:
    """Return the pods lost by acts under these permits."""
    counts: Counter[str] = Counter()
    unrecorded: list[datetime] = []
    for permit in permits:
        if permit.displaced is None:
            if permit.open and disrupts(permit) and permit.grants[-1][1] < now - UNRECORDED:
                unrecorded.append(permit.granted_at)
        elif permit.released_at is None or permit.released_at > now - REMEMBERED:
            counts.update(permit.displaced)
    return Lost(dict(counts), min(unrecorded, default=None))


def disrupts(permit: LedgerPermit) -> bool:
    """Return whether the permit may displace pods."""
    return permit.counts_as(BY_DEFAULT)


def displaced(pods: Iterable[Pod], lost: Lost, now: datetime) -> int:
    """Return how many of the pending pods replace lost ones, or may."""
    pending: Counter[str] = Counter()
    doubtful: Counter[str] = Counter()
    for pod in pods:
        owner, born = _controller(pod), pod.metadata.creation_timestamp
        if owner is None or pod.metadata.deletion_timestamp is not None:
            continue
        if born is not None and born > now - YOUNG:
            continue
        pending[owner.uid] += 1
        if lost.since is not None and owner.kind not in STAYING:
            doubtful[owner.uid] += born is None or born > lost.since - CLOCKS
    known = {uid: min(count, lost.known.get(uid, 0)) for uid, count in pending.items()}
    return sum(max(count, doubtful[uid]) for uid, count in known.items())


class Displacing:
    """A part that counts on every replica. `Recording` writes, in the holder of the lease."""

    name = "defender displaced pods"

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        control: RiskControl,
        informer: MakeInformer = Informer,
    ) -> None:
        self._clock, self._control = clock, control
        self.pending: Informer[Pod] = informer(
            kube,
            paths.pods(),
            structs(Pod),
            field_selector="status.phase=Pending",
            clock=clock,
            name="pending pods of defender",
        )

    @property
    def parts(self) -> list[Part]:
        return [self.pending, self]

    async def run(self) -> None:
        self._control.displaced = None
        await self.pending.synced.wait()
        while True:
            self.count()
            await self._clock.sleep(SECONDS)

    def count(self) -> None:
        now = self._clock.now()
        if not self.pending.fresh():
            self._control.displaced = None
            return
        pods = self.pending.cache.values()
        self._control.displaced = displaced(pods, lost(self._control.ledger, now), now)


class Recording:
    """A part that records in each permit which pods its act displaces, while most still exist."""

    name = "defender record of displaced pods"

    def __init__(self, kube: Kube, clock: Clock, fence: Fence, control: RiskControl) -> None:
        self._kube, self._clock, self._fence = kube, clock, fence
        self._control = control
        self._trouble = ""

    async def run(self) -> None:
        while True:
            await self.round()
            await self._clock.sleep(SECONDS)

    async def round(self) -> None:
        """Record the pods of every permit that lacks them.

        A failure is tried again in the next round and does not stop the others.
        """
        trouble = ""
        for permit in self._control.ledger.open():
            missing = permit.displaced is None and bool(permit.node) and disrupts(permit)
            if missing and permit.status_written:
                try:
                    await self._write(permit)
                except NotFound:
                    continue
                except KubeError as error:
                    trouble = str(error)
        if trouble and trouble != self._trouble:
            log.warning("pods of a node not recorded", extra={"why": trouble})
        self._trouble = trouble

    async def _write(self, permit: LedgerPermit) -> None:
        """Record the pods of the permit's node. Raises KubeError."""
        query = {"fieldSelector": f"spec.nodeName={permit.node}"}
        displaced_pods = controllers((await self._kube.get(paths.pods(), _pods, query=query)).items)
        self._fence.check()
        records = [
            {"controller": uid, "pods": count} for uid, count in sorted(displaced_pods.items())
        ]
        path = paths.custom(Permit.resource.plural, permit.name, "status")
        await self._kube.patch(path, {"status": {"displaced": records}})
        permit.displaced = displaced_pods
