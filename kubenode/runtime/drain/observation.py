"""The observed pods of a node that is drained. No decision, no I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Blocked:
    """A refused eviction.

    budget: the PodDisruptionBudgets behind it, "" if unknown
    message: the server's text
    until: time of the next try; None for at once
    """

    pod: str
    budget: str
    message: str
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Going:
    """A pod that terminates. `ends` is the end of its grace period, by the API server's clock."""

    pod: str
    ends: datetime


@dataclass(frozen=True, slots=True)
class Surge:
    """Replicas that are added to a Deployment until pods of one of its ReplicaSets have moved.

    key: `namespace/name` of the Deployment
    owner: UID of the ReplicaSet whose pods are to move
    count: number of added replicas
    since: when it was decided
    """

    key: str
    owner: str
    count: int
    since: datetime


@dataclass(frozen=True, slots=True)
class Surges:
    """Surges, by what is to be done next.

    new: to be recorded as ours before anything is done
    plain: UIDs of ReplicaSets that move without a surge, and why
    up: recorded, and not carried out at the Deployment yet
    finished: keys of surges that have ended, with "" after a success, else why no more time is
        spent on them
    """

    new: tuple[Surge, ...] = ()
    plain: Mapping[str, str] = field(default_factory=dict)
    up: tuple[Surge, ...] = ()
    finished: Mapping[str, str] = field(default_factory=dict)


NO_SURGES = Surges()


@dataclass(frozen=True, slots=True)
class Pods:
    """The pods of a node. Keys are `namespace/name`.

    remaining: number of pods that still have to leave; `every` lists them
    due: to be evicted next, in this order
    delete: to be deleted next by policy, whatever a budget says
    going: terminating, but still there
    patient: number of pods that by policy run until they end by themselves
    stay: left alone, by policy or because no controller would recreate them
    local: those of `every` that have data on this node and can run nowhere else
    checkpoint: gangs whose receiver is to be notified, or asked again
    overdue: gangs whose receiver exceeded its time
    blocked: the refused eviction that is retried first
    waiting: why pods remain that are not due, "" if they only need time to end
    cordoning: number of other jobs that may act and have not cordoned their nodes yet
    at: when time alone changes something; None if it does not
    """

    remaining: int = 0
    due: tuple[str, ...] = ()
    every: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()
    going: tuple[Going, ...] = ()
    patient: int = 0
    stay: tuple[str, ...] = ()
    local: tuple[str, ...] = ()
    checkpoint: tuple[str, ...] = ()
    overdue: tuple[str, ...] = ()
    surges: Surges = NO_SURGES
    blocked: Blocked | None = None
    waiting: str = ""
    cordoning: int = 0
    at: datetime | None = None

    @property
    def moves(self) -> bool:
        """Return whether something can be done now, or nothing is left to do.

        If not, the drain only waits, and the watch of the node tells enough.
        """
        acts = self.due or self.delete or self.checkpoint
        return self.remaining == 0 or bool(acts) or self.surges != NO_SURGES
