"""A shared charge from its parts."""

from typing import TYPE_CHECKING

from defender.charge.charge import MakeCharge
from defender.charge.record import Recorder
from defender.charge.shared import Shared
from defender.charge.step import Times
from defender.redis.log import SharedLog
from defender.store import PermitStore
from kubenode.api.v1alpha1 import Permit
from kubenode.runtime.clock import Clock
from kubenode.runtime.fence import Fence
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informer import Informer

if TYPE_CHECKING:
    from redis.asyncio import Redis


def shared_by(
    redis: "Redis",
    kube: Kube,
    clock: Clock,
    namespace: str,
    cluster: str,
    times: Times | None = None,
) -> MakeCharge:
    """kube     for the record of who answers; its own, so that no burst delays it
    cluster  tells clusters that share a Redis apart
    """
    log = SharedLog(redis, f"kubenode:permits:{cluster}")

    def make(store: PermitStore, fence: Fence, permits: Informer[Permit]) -> Shared:
        return Shared(store, fence, permits, log, Recorder(kube, namespace), clock, times)

    return make
