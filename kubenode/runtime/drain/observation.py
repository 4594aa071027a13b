"""What is seen of the pods of a node that is drained. No decision, no I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Blocked:
    """An eviction that was refused: which pod, by which budgets, in the server's words.

    until  when it is asked for again; None: at once
    """

    pod: str
    budget: str
    message: str
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Going:
    """A pod that was told to end. `ends` is when its grace is over, by the API server's clock."""

    pod: str
    ends: datetime


@dataclass(frozen=True, slots=True)
class Surge:
    """Replicas that we add to a Deployment until pods of one of its ReplicaSets have moved.

    key     `namespace/name` of the Deployment
    owner   uid of the ReplicaSet whose pods shall move
    count   how many replicas are added
    since   when it was decided
    """

    key: str
    owner: str
    count: int
    since: datetime


@dataclass(frozen=True, slots=True)
class Surges:
    """What of surge is to be done next.

    new       to be written down as ours before anything is done
    plain     uids of ReplicaSets that move without surge, and why
    up        written down, and not yet done at the Deployment
    finished  keys of those that have served or are not worth more waiting, with the reason if it is
              the latter, else ""
    """

    new: tuple[Surge, ...] = ()
    plain: Mapping[str, str] = field(default_factory=dict)
    up: tuple[Surge, ...] = ()
    finished: Mapping[str, str] = field(default_factory=dict)


NO_SURGES = Surges()


@dataclass(frozen=True, slots=True)
class Pods:
    """Pods of the node. Keys are `namespace/name`.

    remaining   how many have to leave, in all; `every` names them
    due         to be evicted next, in order
    delete      to be deleted next: the rule says so, whatever a budget says
    going       told to end, still there
    patient     run on until they have ended by themselves, by policy
    stay        left alone, by policy or because nobody would make them anew
    local       of those that leave: they keep data on this node and can run nowhere else
    checkpoint  gangs whose receiver is to be told, or asked again
    overdue     gangs whose receiver had its time
    blocked     of the refused evictions the one that is tried again first
    waiting     why pods are left that are not due, "" if they only need time to end
    cordoning   others that may act and have not cordoned their nodes yet
    at          when time alone changes something; None: nothing of the kind
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
        """Whether something can be done about them now, or nothing is left to do; else it is only
        waited, and what is known of the node from its watch is enough.
        """
        acts = self.due or self.delete or self.checkpoint
        return self.remaining == 0 or bool(acts) or self.surges != NO_SURGES
