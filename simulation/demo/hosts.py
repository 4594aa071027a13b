"""Simulated hosts: units, the kernel log's marks, and what cures what. The truth of the demo.

Detectors, kubelets and the agent's own code look at these hosts as they would at real ones.
Nothing heals by itself here but what a fault says of itself: a unit is well again because it was
restarted, a latched mark goes because the machine was booted.
"""

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from simulation.demo.fleet import Place

KUBELET = "kubelet.service"
CONTAINERD = "containerd.service"
CHRONY = "chronyd.service"
UNITS = (KUBELET, CONTAINERD, CHRONY)


class By(StrEnum):
    """Who booted a machine."""

    AGENT = "agent"
    PROVIDER = "provider"
    PERSON = "person"


class Mark(StrEnum):
    """What the kernel log said since boot: node-problem-detector's latched conditions."""

    KERNEL_DEADLOCK = "KernelDeadlock"
    READONLY_FILESYSTEM = "ReadonlyFilesystem"


@dataclass(slots=True)
class Illness:
    """Why a unit does not answer, and what it takes.

    also     unit that must have been restarted since `began`, before a restart of this one helps
    empty    a restart helps only while no workload pod is left on the node
    outside  no restart helps: the cause is not on this host
    """

    began: float
    also: str = ""
    empty: bool = False
    outside: bool = False


@dataclass(frozen=True, slots=True)
class HostAct:
    """What somebody did to a host, as the host itself knows it. `verb` as systemd's D-Bus says."""

    at: float
    node: str
    verb: str
    unit: str


@dataclass(slots=True)
class DemoHost:
    """One machine. `changed` is called after anything that a detector could see changes."""

    place: Place
    changed: Callable[["DemoHost"], None] = lambda host: None
    acted: Callable[[HostAct], None] = lambda act: None
    cured: Callable[["DemoHost", str], None] = lambda host, what: None
    booted: Callable[["DemoHost", By], None] = lambda host, by: None
    """Called before anything of the old boot is forgotten."""
    reboots: Callable[["DemoHost", By], None] = lambda host, by: host.boot(by)
    """Makes the machine boot, in its time."""
    boot_id: str = ""
    ill: dict[str, Illness] = field(default_factory=dict)
    marks: dict[Mark, float] = field(default_factory=dict)
    restarted: dict[str, float] = field(default_factory=dict)
    workload_pods: int = 0
    clock_ahead: timedelta = timedelta(0)
    """By how much its clock is ahead; negative: behind. What is written on it has such stamps."""
    up: asyncio.Event = field(default_factory=asyncio.Event)
    down: asyncio.Event = field(default_factory=asyncio.Event)
    """One of the two is set: down is what hangs, is off, or boots."""

    def __post_init__(self) -> None:
        self.boot_id = self.boot_id or self.place.boot_id
        self.up.set()

    @property
    def name(self) -> str:
        return self.place.name

    @property
    def well(self) -> bool:
        return not self.ill and not self.marks and self.answers

    @property
    def answers(self) -> bool:
        """Whether anything on it can be heard of: a kubelet, a detector, an agent."""
        return self.up.is_set()

    def goes_down(self) -> None:
        """It hangs, is switched off, or begins to boot."""
        self.up.clear()
        self.down.set()
        self.changed(self)

    def break_unit(self, unit: str, illness: Illness) -> None:
        self.ill[unit] = illness
        self.changed(self)

    def recover_unit(self, unit: str) -> None:
        """The cause outside went away."""
        if self.ill.pop(unit, None) is not None:
            self.changed(self)

    def relent(self, unit: str) -> None:
        """The cause outside went away, but only a restart brings the unit back."""
        if (illness := self.ill.get(unit)) is not None:
            illness.outside = False

    def mark(self, mark: Mark, at: float) -> None:
        self.marks[mark] = at
        self.changed(self)

    def restart(self, unit: str, at: float) -> bool:
        """systemd's RestartUnit, at its end; whether the unit answers now."""
        self.acted(HostAct(at, self.name, "RestartUnit", unit))
        self.restarted[unit] = at
        illness = self.ill.get(unit)
        if illness is None or not self._helps(illness):
            return illness is None
        del self.ill[unit]
        self.changed(self)
        self.cured(self, unit)
        return True

    def _helps(self, illness: Illness) -> bool:
        if illness.outside or (illness.empty and self.workload_pods):
            return False
        return not illness.also or self.restarted.get(illness.also, -1.0) >= illness.began

    def boot(self, by: By = By.PERSON) -> None:
        """It is up again: units start afresh, the kernel log is empty."""
        self.booted(self, by)
        self.boot_id = str(uuid.uuid4())
        self.marks.clear()
        self.ill = {unit: illness for unit, illness in self.ill.items() if illness.outside}
        self.down.clear()
        self.up.set()
        self.changed(self)
