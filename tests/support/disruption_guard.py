"""A guard of destructive acts with levers, and permits that are read from memory."""

from kubenode.api.v1alpha1.permit import Holder
from kubenode.runtime.audit import SILENT, Audit
from kubenode.runtime.clock import Clock
from kubenode.runtime.disruption.guard import DisruptionGuard
from kubenode.runtime.disruption.permits import (
    LivePermit,
    LivePermitSpec,
    LivePermitStatus,
    PermitHolder,
)
from kubenode.runtime.fence import AlwaysLeader, Fence
from kubenode.runtime.kube.objects import KubeObjectMeta
from machine.disruption.port import DisruptionRequest, DisruptionState, Prepared


def live_permit(
    name: str = "p", node: str = "n", uid: str = "u", class_: str = "Node", state: str = "Granted"
) -> LivePermit:
    spec = LivePermitSpec(class_, node, PermitHolder("Machine", "m", uid))
    return LivePermit(KubeObjectMeta(name=name), spec, LivePermitStatus(state))


class KeptPermits:
    """What the API server would say."""

    def __init__(self, *permits: LivePermit) -> None:
        self.permits = {permit.metadata.name: permit for permit in permits}
        self.reads = 0

    async def read(self, name: str) -> LivePermit | None:
        self.reads += 1
        return self.permits.get(name)


class GrantedDisruptions(KeptPermits):
    """Disruptions that are allowed at once, under permits that outlive a controller."""

    async def prepare(self, wish: DisruptionRequest) -> Prepared:
        name = f"p-{wish.holder.name}"
        self.permits[name] = live_permit(name, wish.node or "", wish.holder.uid)
        return Prepared(DisruptionState.DRAINING, permit=name)

    async def end(self, node: str | None, holder: Holder) -> bool:
        self.permits.pop(f"p-{holder.name}", None)
        return True


class GuardLevers:
    """Levers: `permits.permits`, `frozen`."""

    def __init__(
        self, clock: Clock, *permits: LivePermit, fence: Fence | None = None, audit: Audit = SILENT
    ) -> None:
        self.permits, self.frozen = KeptPermits(*permits), ""
        self.guard = DisruptionGuard(
            self.permits, fence or AlwaysLeader(), clock, audit, lambda: self.frozen
        )
