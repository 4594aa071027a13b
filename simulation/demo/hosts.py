"""Simulated hosts: units, marks in the kernel log, and what ends a fault. The truth of the demo.

Detectors, kubelets and the agent's own code read these hosts as they would read real ones. A fault
ends by its remedy: a unit recovers because it was restarted, and a latched mark ends because the
machine was booted. A fault ends by itself only if the plan gives it a duration.
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
    """Entries of the kernel log since the boot: node-problem-detector's latched conditions."""

    KERNEL_DEADLOCK = "KernelDeadlock"
    READONLY_FILESYSTEM = "ReadonlyFilesystem"


@dataclass(slots=True)
class Illness:
    """Why a unit does not answer, and what helps.

    also: a unit that must be restarted after `began`, before a restart of this one helps.
    empty: whether a restart helps only while no workload pod is left on the node.
    outside: whether no restart helps, since the cause is outside of this host.
    """

    began: float
    also: str = ""
    empty: bool = False
    outside: bool = False


@dataclass(frozen=True, slots=True)
class HostAct:
    """An act on a host, as the host itself knows it.

    verb: as in the D-Bus API of systemd.
    """

    at: float
    node: str
    verb: str
    unit: str


@dataclass(slots=True)
class DemoHost:
    """One machine.

    changed: called after a change that a detector could notice.
    acted: called for each act on the host.
    cured: called with the unit whose fault a restart has ended.
    ill: unit to why it does not answer.
    restarted: unit to the time of its last restart.
    """

    place: Place
    changed: Callable[["DemoHost"], None] = lambda host: None
    acted: Callable[[HostAct], None] = lambda act: None
    cured: Callable[["DemoHost", str], None] = lambda host, what: None
    booted: Callable[["DemoHost", By], None] = lambda host, by: None
    """Called at a boot, before the state of the old boot is dropped."""
    reboots: Callable[["DemoHost", By], None] = lambda host, by: host.boot(by)
    """Requests a boot, which takes some time."""
    boot_id: str = ""
    ill: dict[str, Illness] = field(default_factory=dict)
    marks: dict[Mark, float] = field(default_factory=dict)
    restarted: dict[str, float] = field(default_factory=dict)
    workload_pods: int = 0
    clock_ahead: timedelta = timedelta(0)
    """How far its clock is ahead; negative if it is behind.

    Timestamps of the host are off by this.
    """
    up: asyncio.Event = field(default_factory=asyncio.Event)
    down: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while the host hangs, is off, or boots; else `up` is set."""

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
        """Return whether kubelet, detectors and agent of the host can answer."""
        return self.up.is_set()

    def goes_down(self) -> None:
        """Take the host down: it hangs, is switched off, or begins to boot."""
        self.up.clear()
        self.down.set()
        self.changed(self)

    def break_unit(self, unit: str, illness: Illness) -> None:
        self.ill[unit] = illness
        self.changed(self)

    def recover_unit(self, unit: str) -> None:
        """End the fault of a unit that recovers by itself."""
        if self.ill.pop(unit, None) is not None:
            self.changed(self)

    def relent(self, unit: str) -> None:
        """End the cause outside of the host. Only a restart brings the unit back."""
        if (illness := self.ill.get(unit)) is not None:
            illness.outside = False

    def mark(self, mark: Mark, at: float) -> None:
        self.marks[mark] = at
        self.changed(self)

    def restart(self, unit: str, at: float) -> bool:
        """Restart a unit, as at the end of systemd's RestartUnit. Return whether it answers now."""
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
        """Bring the host up after a boot: units start again, and the kernel log is empty."""
        self.booted(self, by)
        self.boot_id = str(uuid.uuid4())
        self.marks.clear()
        self.ill = {unit: illness for unit, illness in self.ill.items() if illness.outside}
        self.down.clear()
        self.up.set()
        self.changed(self)
