"""Injects the planned faults into the simulated hosts, and records them in the ledger.

It also plays the people of the demo: somebody has cordoned a node before KubeNode starts, somebody
boots machines whose jobs need a person, and the owner of an application relaxes a budget that
allowed no eviction.
"""

import random
from collections.abc import Callable

from kubenode.runtime.clock import Clock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from simulation.demo.agenda import Agenda
from simulation.demo.detectors import DemoDetectors
from simulation.demo.faults import Kind, Plan, Planned
from simulation.demo.hosts import CHRONY, CONTAINERD, KUBELET, By, DemoHost, Illness, Mark
from simulation.demo.ledger import EndedBy, Ledger
from simulation.demo.workloads import STUBBORN, Workloads

UNITS: dict[Kind, str] = {
    Kind.KUBELET_DOWN: KUBELET,
    Kind.KUBELET_WEDGED: KUBELET,
    Kind.RUNTIME_HUNG: CONTAINERD,
    Kind.RUNTIME_SHIMS: CONTAINERD,
    Kind.STORM: CONTAINERD,
    Kind.STORM_REMNANT: CONTAINERD,
    Kind.CLOCK: CHRONY,
    Kind.CLOCK_PROVEN: CHRONY,
    Kind.FLAP: KUBELET,
}
MARKS: dict[Kind, Mark] = {
    Kind.DEADLOCK: Mark.KERNEL_DEADLOCK,
    Kind.READONLY: Mark.READONLY_FILESYSTEM,
}
SINGLE = frozenset(k for k in Kind if k.real and not k.outside and k is not Kind.CLOCK_PROVEN)
"""Real faults that belong to no storm."""
PERSON_TAKES = 240.0
"""Seconds of a real fleet until a person boots a machine whose job needs a person."""
OWNER_TAKES = 300.0


class Trouble:
    """A Part that runs the plan from `starts_at` on.

    starts_at: monotonic time at which nodes are older than every rule's startupGrace.
    is_interrupted: whether a breaker stops repairs now. Real faults that are due then are left out,
        but for those of a storm: on a slow machine they would pile up until nothing is repaired.
    """

    name = "trouble"

    def __init__(
        self,
        kube: Kube,
        hosts: dict[str, DemoHost],
        planned: Plan,
        ledger: Ledger,
        detectors: DemoDetectors,
        workloads: Workloads,
        agenda: Agenda,
        clock: Clock,
        speed: float,
        rng: random.Random,
    ) -> None:
        self._kube = kube
        self._hosts = hosts
        self._planned = planned
        self._ledger = ledger
        self._detectors = detectors
        self._workloads = workloads
        self._agenda = agenda
        self._clock = clock
        self._speed = speed
        self._rng = rng
        self._booting: set[str] = set()
        self.starts_at = 0.0
        self.is_interrupted: Callable[[], bool] = lambda: False
        for host in hosts.values():
            host.cured = self._cured
            host.booted = self._booted

    async def run(self) -> None:
        began = max(self.starts_at, self._clock.monotonic())
        for planned in self._planned:
            await self._clock.sleep(began + planned.at - self._clock.monotonic())
            if planned.kind in SINGLE and self.is_interrupted():
                continue
            for name in planned.nodes:
                self._strike(self._hosts[name], planned)

    async def cordon_by_hand(self, node: str) -> None:
        """Cordon a node as a person does, without a mark of ours."""
        await self._kube.patch(paths.node(node), {"spec": {"unschedulable": True}})

    def _strike(self, host: DemoHost, planned: Planned) -> None:
        kind, now = planned.kind, self._clock.monotonic()
        if not host.well and not kind.outside:
            return  # one fault at a time for each node keeps the ledger exact
        if CONTAINERD in host.ill:
            return
        self._ledger.inject(host.name, kind, now)
        if kind is Kind.EVENT:
            self._agenda.soon(0, lambda: self._single_event(host))
        elif kind is Kind.HOST_HUNG:
            host.goes_down()
        elif kind in MARKS:
            host.mark(MARKS[kind], now)
        else:
            host.break_unit(UNITS[kind], _illness(kind, now))
        if kind is Kind.CLOCK_PROVEN:
            self._agenda.soon(0, lambda: self._proof(host))
        if planned.lasts is not None:
            lasts = planned.lasts + self._rng.uniform(0, planned.spread)
            self._agenda.soon(lasts, lambda: self._passes(host, kind))

    async def _single_event(self, host: DemoHost) -> None:
        text = "INFO: task postgres:4711 blocked for more than 120 seconds."
        await self._detectors.event(host, "kernel-monitor", "TaskHung", text)
        now = self._clock.monotonic()
        self._ledger.end(host.name, [Kind.EVENT], now, EndedBy.ITSELF)

    async def _proof(self, host: DemoHost) -> None:
        text = "ClockUnsynchronized: system clock is not synchronized"
        await self._detectors.event(host, "eks-node-monitoring-agent", "KernelReady", text)
        self._ledger.signalled(host.name, self._clock.monotonic())

    async def _passes(self, host: DemoHost, kind: Kind) -> None:
        if kind is Kind.STORM_REMNANT:
            host.relent(UNITS[kind])
            return
        self._ledger.end(host.name, [kind], self._clock.monotonic(), EndedBy.ITSELF)
        host.recover_unit(UNITS[kind])

    def _cured(self, host: DemoHost, unit: str) -> None:
        kinds = [kind for kind, of in UNITS.items() if of == unit]
        self._ledger.end(host.name, kinds, self._clock.monotonic(), EndedBy.AGENT)

    def _booted(self, host: DemoHost, by: By) -> None:
        """End all faults of the host that a boot ends, and cancel a planned boot by a person."""
        self._booting.discard(host.name)
        units = {unit for unit, illness in host.ill.items() if not illness.outside}
        kinds = [*MARKS, Kind.HOST_HUNG, *(kind for kind, of in UNITS.items() if of in units)]
        self._ledger.end(host.name, kinds, self._clock.monotonic(), EndedBy(by.value))

    # People.

    def call_person(self, node: str) -> None:
        """Let a person boot the machine of a job that needs one. Repeated calls are ignored."""
        host = self._hosts.get(node)
        if host is None or host.well or node in self._booting:
            return
        self._booting.add(node)
        delay = self._rng.uniform(0.5, 1.5) * PERSON_TAKES / self._speed
        self._agenda.soon(delay, lambda: self._boot(host))

    async def _boot(self, host: DemoHost) -> None:
        if host.name in self._booting:
            host.reboots(host, By.PERSON)

    def blocked(self, app: str = STUBBORN) -> None:
        """Let the owner of `app` relax its budget after it first blocked an eviction."""
        delay = OWNER_TAKES / self._speed
        self._agenda.soon(delay, lambda: self._workloads.loosen(app))


def _illness(kind: Kind, now: float) -> Illness:
    return Illness(
        now,
        also=CONTAINERD if kind is Kind.KUBELET_WEDGED else "",
        empty=kind is Kind.RUNTIME_SHIMS,
        outside=kind.outside,
    )
