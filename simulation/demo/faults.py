"""What may go wrong on a node of the demo, and how a plan says when, where and for how long.

Real faults should be healed or told to people; noise should be left alone: conditions that flap
below a rule's `for`, single Events. The plans themselves are in `scenarios.py`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    KUBELET_DOWN = "KubeletDown"
    KUBELET_WEDGED = "KubeletWedged"
    RUNTIME_HUNG = "RuntimeHung"
    RUNTIME_SHIMS = "RuntimeShimsHang"
    """The runtime comes back only when the node is empty."""
    CLOCK = "ClockUnkept"
    CLOCK_PROVEN = "ClockUnkeptProven"
    """The same, told at once by an Event; its host confirms it when a rule asks."""
    DEADLOCK = "KernelDeadlock"
    READONLY = "ReadonlyFilesystem"
    HOST_HUNG = "HostHung"
    """Nothing on the host answers any more, until it is booted from outside."""
    STORM = "ZoneStorm"
    """Of many nodes of a zone: the runtime lost something outside of the hosts, no restart helps
    until that has passed. On some nodes it is well again then."""
    STORM_REMNANT = "ZoneStormLeft"
    """The same on the other nodes: once it has passed, they need a restart."""
    FLAP = "Flapping"
    EVENT = "SingleEvent"

    @property
    def real(self) -> bool:
        """Whether something is wrong that somebody should act on."""
        return self not in (Kind.FLAP, Kind.EVENT)

    @property
    def boots(self) -> bool:
        """Whether nothing but a boot takes it away."""
        return self in (Kind.DEADLOCK, Kind.READONLY, Kind.HOST_HUNG)

    @property
    def outside(self) -> bool:
        """Whether the cause is not on the host."""
        return self in (Kind.STORM, Kind.STORM_REMNANT)


@dataclass(frozen=True, slots=True)
class Planned:
    """One fault to come, on these nodes at once.

    at      seconds after the first moment at which faults may come
    lasts   seconds after which it passes by itself, None for never
    spread  seconds more, at random for each node, until it has passed there
    """

    at: float
    kind: Kind
    nodes: tuple[str, ...]
    lasts: float | None = None
    spread: float = 0.0


Plan = Iterator[Planned]
"""Faults in the order of their time, without end."""
