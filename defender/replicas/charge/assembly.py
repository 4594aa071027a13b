"""Build the objects that share a Redis."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from defender.decision.control import RiskControl
from defender.replicas.charge.charge import Charge, MakeCharge
from defender.replicas.charge.note import NoteStore
from defender.replicas.charge.record import RecordStore
from defender.replicas.charge.replicas import Shared
from defender.replicas.charge.step import CoordinationTimes
from defender.replicas.fleet.budget import ANNOTATION, NAME, FleetSharing, MakeFleet
from defender.replicas.fleet.departure import ANNOTATION as DEPARTURE
from defender.replicas.redis.log import SharedLog
from defender.server.store import PermitStore
from kubenode.api.v1alpha1 import Permit
from kubenode.runtime.clock import Clock
from kubenode.runtime.fence import Fence
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informer import Informer

if TYPE_CHECKING:
    from redis.asyncio import Redis


@dataclass(frozen=True, slots=True)
class Shares:
    """How a Defender shares permits with other replicas, and limits with other clusters."""

    charge: MakeCharge
    fleet: MakeFleet


def shared_by(
    redis: "Redis",
    kube: Kube,
    clock: Clock,
    namespace: str,
    cluster: str,
    times: CoordinationTimes | None = None,
) -> Shares:
    """Build them.

    kube: a client of its own for the coordination record, so that bursts do not delay it.
    cluster: name of this cluster, unique among clusters that share the Redis.
    """

    def log_of(kind: str, name: str) -> SharedLog:
        return SharedLog(redis, f"kubenode:{kind}:{name}")

    def charge(store: PermitStore, fence: Fence, permits: Informer[Permit]) -> Shared:
        recorder = RecordStore(kube, namespace)
        return Shared(store, fence, permits, log_of("permits", cluster), recorder, clock, times)

    def fleet(control: RiskControl, charge: Charge, fence: Fence) -> FleetSharing:
        note = NoteStore(kube, namespace, NAME, ANNOTATION)
        departures = NoteStore(kube, namespace, NAME, DEPARTURE)
        make = partial(log_of, "fleet")
        return FleetSharing(control, charge, fence, clock, note, make, cluster, departures)

    return Shares(charge, fleet)
