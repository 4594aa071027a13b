"""Prepare and end disruptions of nodes. It carries out what `step` decides."""

from dataclasses import replace

from defender.client import Permits
from kubenode.api.cordon import CordonState, add_mark, mark_of, remove_mark, was_uncordoned
from kubenode.api.v1alpha1 import Verdict
from kubenode.api.v1alpha1.permit import Holder
from kubenode.runtime.audit import AuditLine
from kubenode.runtime.disruption.wakes import HolderWakes
from kubenode.runtime.drain.drainer import Drainer
from kubenode.runtime.drain.observation import Pods
from machine.disruption.leaves import Leaves, permits_informer
from machine.disruption.nodes import CordonAccess, cordoned
from machine.disruption.port import DisruptionHold, DisruptionRequest, DisruptionState, Prepared
from machine.disruption.step import SOON, DisruptionAct, DisruptionObservation, step
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
        self._find_open_job, self._frozen = ground.find_open_job, ground.meltdown.frozen
        self.permits = permits_informer(ground.kube, ground.clock, ground.informer)
        self.leaves = Leaves(permits, self.permits, ground.clock)
        self.wakes = HolderWakes("wakes of machines", permits, self.leaves.wake)

    async def prepare(self, wish: DisruptionRequest) -> Prepared:
        node, holder = wish.node or "", wish.holder
        observation = DisruptionObservation(
            now=self._clock.now(),
            node=await self._nodes.observe(node) if node else None,
            job=self._find_open_job(node) if node else "",
            frozen=self._frozen(),
            owned=bool(node and self.leaves.find_permit(node, holder)),
        )
        for _ in range(ROUNDS):
            match step(wish, observation):
                case Prepared() as prepared:
                    return prepared
                case act:
                    observation = await self._do(act, wish, node, observation)
        message, soon = "others write to the node all the time", SOON.total_seconds()
        return Prepared(
            DisruptionState.WAITING,
            reason=DisruptionHold.CONTENDED,
            message=message,
            requeue_after=soon,
        )

    async def end(self, node: str | None, holder: Holder) -> bool:
        if node is None:
            return True
        cordon_state = await self._nodes.observe(node)
        if cordon_state is not None and mark_of(holder) in cordon_state.marks:
            await self._unmark(node, holder)
        return await self.leaves.give_back(node, holder)

    async def _do(
        self,
        act: DisruptionAct,
        wish: DisruptionRequest,
        node: str,
        observation: DisruptionObservation,
    ) -> DisruptionObservation:
        self._fence.check()
        holder = wish.holder
        match act:
            case DisruptionAct.GIVE_BACK:
                await self.end(node, holder)
                return replace(observation, owned=False, node=await self._nodes.live(node))
            case DisruptionAct.ASK:
                verdict = await self.leaves.of(wish, node)
                return replace(
                    observation, verdict=verdict, renew=self.leaves.renew_at(node, holder)
                )
            case DisruptionAct.CORDON:
                return replace(observation, node=await self._mark(node, holder))
            case DisruptionAct.LIST_PODS:
                return replace(observation, pods=await self._plan_drain(wish, node, observation))
            case DisruptionAct.EVICT:
                assert observation.pods is not None
                evictions = await self._drainer.evict(_drain(node, holder), observation.pods.due)
                for pod in evictions.accepted:
                    self._tell("Evict", node, holder, pod.metadata.key)
                pods = await self._plan_drain(wish, node, observation)
                return replace(observation, pods=pods, evicted=True, error=evictions.error)

    async def _plan_drain(
        self, wish: DisruptionRequest, node: str, observation: DisruptionObservation
    ) -> Pods:
        verdict = observation.verdict
        granted = verdict.granted_at if isinstance(verdict, Verdict) else None
        return await self._drainer.plan_next(
            _drain(node, wish.holder), node, granted or observation.now
        )

    async def _mark(self, name: str, holder: Holder) -> CordonState | None:
        """Cordon the node with the holder's mark. Return None if there is no Node."""
        node = await self._nodes.read(name)
        if node is None:
            return None
        cordon_state = cordoned(node)
        mark = mark_of(holder)
        if was_uncordoned(cordon_state, mark) or (change := add_mark(cordon_state, mark)) is None:
            return cordon_state
        written = await self._nodes.write(node, change)
        self._tell("Cordon", name, holder)
        return written

    async def _unmark(self, name: str, holder: Holder) -> None:
        """Remove the holder's mark, and the cordon with the last mark."""
        node = await self._nodes.read(name)
        if node is None or (change := remove_mark(cordoned(node), mark_of(holder))) is None:
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
