"""Which pods we displaced, and how many of them have found no new place yet.

With each permit for pods or a node it is written down which controllers had pods on that node and
how many: the pods themselves get new names. Pending pods of these controllers count as displaced,
of each controller no more than it lost; what is pending for other reasons does not hold us up.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from defender.control import RiskControl
from defender.coverage import BY_DEFAULT
from defender.ledger import Held
from kubenode.api.v1alpha1 import Permit
from kubenode.runtime.clock import Clock
from kubenode.runtime.fence import Fence
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import KubeError, NotFound
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import OwnerReference, Pod, structs
from kubenode.runtime.process import Part

log = logging.getLogger(__name__)

SECONDS = 1.0
MOST_CONTROLLERS = 256
YOUNG = timedelta(seconds=5)
"""A pod that is pending for less than this is on its way."""
REMEMBERED = timedelta(minutes=30)
"""After the release of a permit: whatever is pending longer is not pending because of us."""
UNRECORDED = timedelta(seconds=30)
"""A permit whose pods are not known for longer makes the number unknown."""
STAYING = ("DaemonSet", "Node")
"""Controllers whose pods belong to the node (`Node`: mirrors of static pods)."""
MIRROR = "kubernetes.io/config.mirror"


class _List(msgspec.Struct):
    items: list[Pod] = []


_pods = msgspec.json.Decoder(_List).decode


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


def lost(permits: Iterable[Held], now: datetime) -> dict[str, int] | None:
    """Pods that controllers lost by acts under these permits; None: unknown."""
    found: Counter[str] = Counter()
    for held in permits:
        if held.displaced is None:
            if held.open and disrupts(held) and held.grants[-1][1] < now - UNRECORDED:
                return None
        elif held.released_at is None or held.released_at > now - REMEMBERED:
            found.update(held.displaced)
    return dict(found)


def disrupts(held: Held) -> bool:
    return held.class_ in BY_DEFAULT


def displaced(pods: Iterable[Pod], lost: Mapping[str, int], now: datetime) -> int:
    """How many of the pending pods are there for those that were lost."""
    pending: Counter[str] = Counter()
    for pod in pods:
        owner, born = _controller(pod), pod.metadata.creation_timestamp
        if owner is None or owner.uid not in lost or pod.metadata.deletion_timestamp is not None:
            continue
        if born is None or born <= now - YOUNG:
            pending[owner.uid] += 1
    return sum(min(count, lost[uid]) for uid, count in pending.items())


class Displacing:
    """Counts on every replica; `Recording` writes down, for the holder of the lease."""

    name = "defender displaced pods"

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        control: RiskControl,
        informer: type[Informer[Any]] = Informer,
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
        known = lost(self._control.ledger, now) if self.pending.fresh() else None
        pods = self.pending.cache.values()
        self._control.displaced = None if known is None else displaced(pods, known, now)


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
        """Every permit that lacks it. What fails is tried again in the next round."""
        for held in self._control.ledger.open():
            if held.displaced is None and disrupts(held) and held.status_written:
                try:
                    await self._write(held)
                except NotFound:
                    continue
                except KubeError as error:
                    if self._trouble != str(error):
                        log.warning("pods of a node not recorded", extra={"why": str(error)})
                    self._trouble = str(error)
                    return
        self._trouble = ""

    async def _write(self, held: Held) -> None:
        """Raises KubeError."""
        query = {"fieldSelector": f"spec.nodeName={held.node}"}
        found = controllers((await self._kube.get(paths.pods(), _pods, query=query)).items)
        self._fence.check()
        said = [{"controller": uid, "pods": count} for uid, count in sorted(found.items())]
        path = paths.custom(Permit.resource.plural, held.name, "status")
        await self._kube.patch(path, {"status": {"displaced": said}})
        held.displaced = found
