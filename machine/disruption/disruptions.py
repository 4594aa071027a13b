"""Prepare and end disruptions of nodes. It carries out what `step` decides."""

from dataclasses import replace

from defender.client import Permits
from kubenode.api.v1alpha1 import Verdict
from kubenode.api.v1alpha1.permit import Holder
from kubenode.runtime.audit import AuditLine
from kubenode.runtime.drain.drainer import Drainer
from kubenode.runtime.drain.observation import Pods
from machine.disruption.cordon import Cordoned, joined, left, mark_of, uncordoned
from machine.disruption.leaves import Leaves, permits_informer
from machine.disruption.nodes import CordonAccess, cordoned
from machine.disruption.port import DisruptionHold, DisruptionRequest, DisruptionState, Prepared
from machine.disruption.step import SOON, DisruptionAct, DisruptionObservation, step
from machine.disruption.wakes import HolderWakes
from machine.ground import SharedCaches

BY = "machine"
"""Component name in the audit log."""
ROUNDS = 8
"""Greatest number of acts in one run. More are needed only if others write to the node meanwhile.
"""


class NodeDisruptions:
    """The DisruptionService of the operator.

    permits: client of Kube Defender. None if none is configured; then nothing is disrupted.
    """

    def __init__(self, ground: SharedCaches, permits: Permits | None) -> None:
        self._fence, self._clock, self._audit = ground.fence, ground.clock, ground.audit
        self._nodes = CordonAccess(ground.kube, ground.fence, ground.nodes)
        self._drainer = Drainer(ground.kube, ground.clock)
        self._held, self._frozen = ground.held, ground.meltdown.frozen
        self.permits = permits_informer(ground.kube, ground.clock, ground.informer)
        self.leaves = Leaves(permits, self.permits, ground.clock)
        self.wakes = HolderWakes(permits, self.leaves.wake)

    async def prepare(self, wish: DisruptionRequest) -> Prepared:
        node, holder = wish.node or "", wish.holder
        seen = DisruptionObservation(
            now=self._clock.now(),
            node=await self._nodes.seen(node) if node else None,
            job=self._held(node) if node else "",
            frozen=self._frozen(),
            owned=bool(node and self.leaves.held(node, holder)),
        )
        for _ in range(ROUNDS):
            match step(wish, seen):
                case Prepared() as prepared:
                    return prepared
                case act:
                    seen = await self._do(act, wish, node, seen)
        message, soon = "others write to the node all the time", SOON.total_seconds()
        return Prepared(
            DisruptionState.WAITING,
            reason=DisruptionHold.CONTENDED,
            message=message,
            look_again=soon,
        )

    async def end(self, node: str | None, holder: Holder) -> bool:
        if node is None:
            return True
        seen = await self._nodes.seen(node)
        if seen is not None and seen.has(holder):
            await self._unmark(node, holder)
        return await self.leaves.give_back(node, holder)

    async def _do(
        self, act: DisruptionAct, wish: DisruptionRequest, node: str, seen: DisruptionObservation
    ) -> DisruptionObservation:
        self._fence.check()
        holder = wish.holder
        match act:
            case DisruptionAct.GIVE_BACK:
                await self.end(node, holder)
                return replace(seen, owned=False, node=await self._nodes.live(node))
            case DisruptionAct.ASK:
                verdict = await self.leaves.of(wish, node)
                return replace(seen, verdict=verdict, renew=self.leaves.renew_at(node, holder))
            case DisruptionAct.CORDON:
                return replace(seen, node=await self._mark(node, holder))
            case DisruptionAct.LOOK:
                return replace(seen, pods=await self._left(wish, node, seen))
            case DisruptionAct.EVICT:
                assert seen.pods is not None
                asked = await self._drainer.evict(_drain(node, holder), seen.pods.due)
                for pod in asked.told:
                    self._tell("Evict", node, holder, pod.metadata.key)
                pods = await self._left(wish, node, seen)
                return replace(seen, pods=pods, evicted=True, error=asked.error)

    async def _left(self, wish: DisruptionRequest, node: str, seen: DisruptionObservation) -> Pods:
        verdict = seen.verdict
        granted = verdict.granted_at if isinstance(verdict, Verdict) else None
        return await self._drainer.left(_drain(node, wish.holder), node, granted or seen.now)

    async def _mark(self, name: str, holder: Holder) -> Cordoned | None:
        """Cordon the node with the holder's mark. Return None if there is no Node."""
        node = await self._nodes.read(name)
        if node is None:
            return None
        seen = cordoned(node)
        if uncordoned(seen, holder) or (change := joined(seen, holder)) is None:
            return seen
        written = await self._nodes.write(node, change)
        self._tell("Cordon", name, holder)
        return written

    async def _unmark(self, name: str, holder: Holder) -> None:
        """Remove the holder's mark, and the cordon with the last mark."""
        node = await self._nodes.read(name)
        if node is None or (change := left(cordoned(node), holder)) is None:
            return
        await self._nodes.write(node, change)
        if change.mark is None:
            self._tell("Uncordon", name, holder)

    def _tell(self, what: str, node: str, holder: Holder, why: str = "") -> None:
        now, who = self._clock.now(), f"{holder.kind} {holder.name}"
        self._audit.write(AuditLine(now, BY, who, what, "Done", why=why, node=node))


def _drain(node: str, holder: Holder) -> str:
    """Return the name under which the drainer remembers the evictions for this holder."""
    return f"{node}/{mark_of(holder)}"
