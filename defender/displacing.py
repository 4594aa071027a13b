"""Which pods we displaced, and how many of them have found no new place yet.

With each permit for pods or a node it is written down which controllers had pods on that node and
how many: the pods themselves get new names. Pending pods of these controllers count as displaced,
of each controller no more than it lost; what is pending for other reasons does not hold us up.

While the pods of one permit cannot be written down, each pod that was made since its grant and is
pending may be one of them: so it counts, and nothing else is in doubt.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from defender.control import RiskControl
from defender.coverage import BY_DEFAULT
from defender.ledger import LedgerPermit
from kubenode.api.v1alpha1 import Permit
from kubenode.runtime.clock import Clock
from kubenode.runtime.fence import Fence
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import KubeError, NotFound
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import OwnerReference, Pod, structs
from kubenode.runtime.kube.shared import MakeInformer
from kubenode.runtime.process import Part

log = logging.getLogger(__name__)

SECONDS = 1.0
MOST_CONTROLLERS = 256
YOUNG = timedelta(seconds=5)
"""A pod that is pending for less than this is on its way."""
REMEMBERED = timedelta(minutes=30)
"""After the release of a permit: whatever is pending longer is not pending because of us."""
UNRECORDED = timedelta(seconds=30)
"""A permit whose pods are not known for longer counts for all that it may have displaced."""
CLOCKS = timedelta(minutes=1)
"""So far the API server's clock, which stamps pods, may be behind ours."""
STAYING = ("DaemonSet", "Node")
"""Controllers whose pods belong to the node (`Node`: mirrors of static pods)."""
MIRROR = "kubernetes.io/config.mirror"


class _List(msgspec.Struct):
    items: list[Pod] = []


_pods = structs(_List)


def controllers(pods: Iterable[Pod]) -> dict[str, int]:
    """Pods that would be displaced, by the UID of their controller; those without one come not
    back. Of more than MOST_CONTROLLERS those with the most pods."""
    found: Counter[str] = Counter()
    for pod in pods:
        owner = _controller(pod)
        if owner is None or pod.status.phase in ("Succeeded", "Failed"):
            continue
        if owner.kind not in STAYING and MIRROR not in pod.metadata.annotations:
            found[owner.uid] += 1
    return dict(found.most_common(MOST_CONTROLLERS))


def _controller(pod: Pod) -> OwnerReference | None:
    return next((o for o in pod.metadata.owner_references if o.controller), None)


@dataclass(frozen=True, slots=True)
class Lost:
    """Pods that controllers lost by acts under permits.

    known  by the UID of the controller
    since  the first grant whose pods are not written down: whatever became pending since may be
           its; None: all are
    """

    known: Mapping[str, int]
    since: datetime | None = None


def lost(permits: Iterable[LedgerPermit], now: datetime) -> Lost:
    found: Counter[str] = Counter()
    unrecorded: list[datetime] = []
    for held in permits:
        if held.displaced is None:
            if held.open and disrupts(held) and held.grants[-1][1] < now - UNRECORDED:
                unrecorded.append(held.granted_at)
        elif held.released_at is None or held.released_at > now - REMEMBERED:
            found.update(held.displaced)
    return Lost(dict(found), min(unrecorded, default=None))


def disrupts(held: LedgerPermit) -> bool:
    return held.counts_as(BY_DEFAULT)


def displaced(pods: Iterable[Pod], lost: Lost, now: datetime) -> int:
    """How many of the pending pods are there, or may be, for those that were lost."""
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
    """Counts on every replica; `Recording` writes down, for the holder of the lease."""

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
    """Writes into each permit whose pods its act displaces, before many of them are gone."""

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
        """Every permit that lacks it. What fails is tried again in the next round, and keeps
        no other from being written.
        """
        trouble = ""
        for held in self._control.ledger.open():
            missing = held.displaced is None and bool(held.node) and disrupts(held)
            if missing and held.status_written:
                try:
                    await self._write(held)
                except NotFound:
                    continue
                except KubeError as error:
                    trouble = str(error)
        if trouble and trouble != self._trouble:
            log.warning("pods of a node not recorded", extra={"why": trouble})
        self._trouble = trouble

    async def _write(self, held: LedgerPermit) -> None:
        """Raises KubeError."""
        query = {"fieldSelector": f"spec.nodeName={held.node}"}
        found = controllers((await self._kube.get(paths.pods(), _pods, query=query)).items)
        self._fence.check()
        said = [{"controller": uid, "pods": count} for uid, count in sorted(found.items())]
        path = paths.custom(Permit.resource.plural, held.name, "status")
        await self._kube.patch(path, {"status": {"displaced": said}})
        held.displaced = found
