"""The faults of the demo, and how a plan says when, where and for how long they occur.

Real faults should be healed or reported to people. Noise should be left alone: conditions that flap
for less than a rule's `for`, and single Events. The plans are in `scenarios.py`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    KUBELET_DOWN = "KubeletDown"
    KUBELET_WEDGED = "KubeletWedged"
    RUNTIME_HUNG = "RuntimeHung"
    RUNTIME_SHIMS = "RuntimeShimsHang"
    """The runtime hangs, and a restart helps only when the node is empty."""
    CLOCK = "ClockUnkept"
    CLOCK_PROVEN = "ClockUnkeptProven"
    """Like CLOCK, but reported at once by an Event and confirmed by a probe."""
    DEADLOCK = "KernelDeadlock"
    READONLY = "ReadonlyFilesystem"
    HOST_HUNG = "HostHung"
    """Nothing on the host answers until it is booted from outside."""
    STORM = "ZoneStorm"
    """A fault of many nodes of a zone: the runtime lost something outside of the hosts. No restart
    helps until that is over; then these nodes recover.
    """
    STORM_REMNANT = "ZoneStormLeft"
    """Like STORM, but these nodes need a restart when it is over."""
    FLAP = "Flapping"
    EVENT = "SingleEvent"

    @property
    def real(self) -> bool:
        """Return whether it is a fault on which somebody should act, not noise."""
        return self not in (Kind.FLAP, Kind.EVENT)

    @property
    def boots(self) -> bool:
        """Return whether only a boot ends it."""
        return self in (Kind.DEADLOCK, Kind.READONLY, Kind.HOST_HUNG)

    @property
    def outside(self) -> bool:
        """Return whether the cause is outside of the host."""
        return self in (Kind.STORM, Kind.STORM_REMNANT)


@dataclass(frozen=True, slots=True)
class Planned:
    """A planned fault that begins on all of these nodes at once.

    at: seconds after the plan starts.
    lasts: seconds after which it ends by itself; None for never.
    spread: up to this many seconds more until it ends, at random for each node.
    """

    at: float
    kind: Kind
    nodes: tuple[str, ...]
    lasts: float | None = None
    spread: float = 0.0


Plan = Iterator[Planned]
"""Faults in the order of time. Only the plan of a quiet scenario ends: it is empty."""
