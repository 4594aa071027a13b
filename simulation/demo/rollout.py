"""The rollout of the demo: Machines with three components, and an upgrade that fails.

Every worker is an imported Machine. Once all of them have the first versions, the set of containerd
is changed to the next version. After its second batch the mirror begins to serve a build whose
service crashes. The third batch fails, its hosts roll back, and the set stops.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kubenode.api.base import Resource
from kubenode.api.scale import scaled
from kubenode.api.v1alpha1 import Machine, MachineComponent, MachineComponentSet
from kubenode.api.v1alpha1.machinecomponentset import ComponentSetConditionType, RolloutPhase
from kubenode.api.v1alpha1.machinestatus import ComponentState
from kubenode.api.v1alpha1.machinework import DesiredState
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.process import Part
from simulation.demo.fleet import Place
from simulation.hosts.components import SimulatedComponents

FLEET = {"kubenode.io/fleet": "demo"}
CONTAINERD, PACKAGE, SERVICE = "containerd", "containerd.io", "containerd.service"
OLD, NEW = "2.1.3", "2.1.4"
PAUSED = ComponentSetConditionType.PAUSED
GOOD_BATCHES = 2
PATIENT: Mapping[str, Any] = {"machineTimeout": "2h", "progressDeadline": "48h"}
"""Long timeouts: on a busy machine the demo is late, which must not look like hanging hosts."""
AT_ONCE: Mapping[str, Any] = {
    **PATIENT,
    "batches": ["100%"],
    "maxUnavailable": "100%",
    "bakeTime": "0s",
    "failurePolicy": "Continue",
}
"""The strategy of the first install, which disrupts nothing."""
CAREFUL: Mapping[str, Any] = {
    **PATIENT,
    "batches": [1, 5, 10, 50, 100],
    "maxUnavailable": "20%",
    "bakeTime": "1m",
    "maxAttempts": 1,
    "autoPause": {"maxFailures": 1},
}
POLL_SECONDS = 0.1
PACE = 30.0
"""Divides the durations of the rollout, whatever the speed of the fleet, which is lower. In a
faster fleet on a busy machine heartbeats would be late, and nodes that seem unhealthy get no
permits.
"""

Objects = Mapping[str, dict[str, Any]]


def components() -> Iterable[MachineComponent]:
    """Yield the components. A first install disrupts nothing; a patch restarts the service."""
    yield _component("runc", "1.2.6", {"packages": [{"name": "runc", "version": "1.2.6-1"}]})
    for version in (OLD, NEW):
        yield _component(
            CONTAINERD,
            version,
            {"packages": [{"name": PACKAGE, "version": f"{version}-1"}]},
            dependsOn=[{"component": "runc", "version": ">=1.2"}],
            files=[
                {
                    "path": "/etc/containerd/conf.d/10-pause.toml",
                    "content": {
                        "inline": "sandbox = 'registry.example/base/pause:${values.pause}'\n"
                    },
                    "onChange": "Restart",
                }
            ],
            units=[{"name": SERVICE}],
            health=[{"name": "runs", "type": "unit", "unit": SERVICE, "successes": 1}],
            healthDeadline="4m",
        )
    yield _component(
        "node-exporter",
        "1.9.0",
        {"packages": [{"name": "prometheus-node-exporter", "version": "1.9.0-1"}]},
        units=[{"name": "prometheus-node-exporter.service", "onChange": "None"}],
    )


def _component(family: str, version: str, apt: dict[str, Any], **more: Any) -> MachineComponent:
    return MachineComponent.model_validate(
        {
            "metadata": {"name": f"{family}-{version}"},
            "spec": {
                "component": family,
                "version": version,
                "source": {"type": "apt", "apt": apt},
                "disruption": {"install": "None", "patch": "Restart"},
                **more,
            },
        }
    )


def component_sets() -> Iterable[MachineComponentSet]:
    for family, version in (("runc", "1.2.6"), (CONTAINERD, OLD), ("node-exporter", "1.9.0")):
        spec: dict[str, Any] = {
            "selector": {"matchLabels": FLEET},
            "component": f"{family}-{version}",
            "updateStrategy": AT_ONCE,
        }
        if family == CONTAINERD:
            spec["values"] = {"pause": "3.10"}
        yield MachineComponentSet.model_validate({"metadata": {"name": family}, "spec": spec})


def machine(place: Place) -> Machine:
    return Machine.model_validate(
        {
            "metadata": {"name": place.name, "labels": {**FLEET, "pool": place.pool}},
            "spec": {
                "origin": "Import",
                "addresses": [place.address],
                "failureDomain": place.zone,
            },
        }
    )


def scaled_strategy(wanted: MachineComponentSet) -> dict[str, Any]:
    """Return the fields of the set to patch: the component, and the scaled strategy."""
    spec: dict[str, Any] = scaled(wanted, PACE).to_dict()["spec"]
    return {name: spec[name] for name in ("component", "updateStrategy")}


def equip(host: SimulatedComponents) -> None:
    """Set the units that the packages of the mirror start on a host."""
    host.packages.brings = {
        PACKAGE: (SERVICE,),
        "prometheus-node-exporter": ("prometheus-node-exporter.service",),
    }


class Rollout:
    """A Part that starts the upgrade, breaks the mirror, and records the result.

    kube: the client for acts of people.
    eyes: the client for reading.
    hosts: component ports by node.
    """

    name = "rollout"

    def __init__(
        self,
        kube: Kube,
        eyes: Kube,
        places: Iterable[Place],
        hosts: Mapping[str, SimulatedComponents],
        clock: Clock,
        news: Callable[[str], None],
    ) -> None:
        self._kube, self._clock, self._news = kube, clock, news
        self._places = [place for place in places if not place.control_plane]
        self._hosts = hosts
        self._machines: Informer[Machine] = Informer(
            eyes, paths.custom("machines"), Machine.from_server, clock=clock, name="demo machines"
        )
        self._sets: Informer[MachineComponentSet] = Informer(
            eyes,
            paths.custom("machinecomponentsets"),
            MachineComponentSet.from_server,
            clock=clock,
            name="demo component sets",
        )
        self._machines.add_handler(self._machine_changed)
        self._touched: set[str] = set()
        self._begun = self._bad = False
        self.last_message = ""
        """The progress as text."""
        self._most_down = 0

    @property
    def ground(self) -> list[Part]:
        return [self._machines, self._sets]

    async def create(self) -> None:
        """Create components, sets and Machines, as people would apply them."""
        for host in self._hosts.values():
            equip(host)
        for each in (*components(), *component_sets()):
            await self._put(each)
        for place in self._places:
            await self._put(machine(place))

    async def _put(self, each: Resource) -> None:
        body = scaled(each, PACE).to_dict()
        await self._kube.create(paths.custom(each.resource.plural), body)

    async def run(self) -> None:
        while True:
            await self._clock.sleep(POLL_SECONDS)
            wanted = self._sets.get(CONTAINERD)
            if wanted is None:
                continue
            self._tell(wanted)
            if not self._begun and self._installed():
                await self._begin(wanted)
            elif self._begun and not self._bad and self._second_batch_is_well(wanted):
                self._spoil()

    def _installed(self) -> bool:
        """Return whether every machine has the first versions, as the sets report."""
        done = all(s.status.phase is RolloutPhase.COMPLETED for s in self._sets.cache.values())
        return done and len(self._machines.cache) == len(self._places)

    async def _begin(self, wanted: MachineComponentSet) -> None:
        self._begun = True
        self._news(f"{CONTAINERD} is to go from {OLD} to {NEW}")
        spec = {"component": f"{CONTAINERD}-{NEW}", "updateStrategy": CAREFUL}
        changed = MachineComponentSet.model_validate(
            {**wanted.to_dict(), "spec": {**wanted.spec.to_dict(), **spec}}
        )
        await self._kube.patch(
            paths.custom("machinecomponentsets", CONTAINERD),
            {"spec": scaled_strategy(changed)},
        )

    def _second_batch_is_well(self, wanted: MachineComponentSet) -> bool:
        """Return whether the second batch of the upgrade is healthy.

        The first install had batches too.
        """
        status, batch = wanted.status, wanted.status.batch
        if status.observed_generation != wanted.metadata.generation or batch is None:
            return False
        upgrades = wanted.spec.component == f"{CONTAINERD}-{NEW}"
        return upgrades and batch.index == GOOD_BATCHES and batch.succeeded_at is not None

    def _spoil(self) -> None:
        self._bad = True
        self._news(f"the mirror begins to serve a build of {CONTAINERD} {NEW} that crashes")
        for host in self._hosts.values():
            if host.packages.packages[PACKAGE].version != f"{NEW}-1":
                host.crashing[SERVICE] = {(PACKAGE, f"{NEW}-1")}

    def _machine_changed(self, name: str, old: Machine | None, new: Machine | None) -> None:
        if not self._begun or new is None:
            return
        for assigned in new.spec.components:
            runs = assigned.desired_state is DesiredState.RUNNING  # else downloaded ahead
            if runs and assigned.component == f"{CONTAINERD}-{NEW}":
                self._touched.add(name)
        self._most_down = max(self._most_down, len(self._down()))

    def _down(self) -> set[str]:
        """Return the machines that have a permit of this rollout and may be disrupted."""
        return {n for n, m in self._machines.cache.items() if m.spec.permit is not None}

    def _tell(self, wanted: MachineComponentSet) -> None:
        batch, phase = wanted.status.batch, wanted.status.phase
        message = f"{CONTAINERD}: {phase}"
        if self._begun and batch is not None and batch.index:
            message += f", batch {batch.index} of {batch.size}"
        paused = next((c for c in wanted.status.conditions if c.type == PAUSED), None)
        if paused is not None and paused.status == "True":
            message += f" ({paused.reason}: {paused.message})"
        if message != self.last_message:
            self.last_message = message
            self._news(message)

    # -- what became of it ----------------------------------------------------------------------

    def summary(self) -> dict[str, Any]:
        """Return the result of the rollout.

        phase: the phase of the set at the end.
        stoppedAtBatch: the batch at which it stopped, None if it did not.
        machinesTouched: machines to which the new version was ever assigned.
        machinesRolledBack: machines that rolled back by themselves.
        machinesUpdated: machines that have the new version and are healthy.
        mostUnavailable: the most machines that were disrupted at once.
        """
        wanted = self._sets.get(CONTAINERD)
        status = None if wanted is None else wanted.status
        states = [
            (component.state, component.version)
            for member in self._machines.cache.values()
            for component in member.status.components
            if component.name == CONTAINERD
        ]
        phase = None if status is None else status.phase
        stopped = phase is RolloutPhase.PAUSED and status is not None and status.batch is not None
        return {
            "phase": None if phase is None else phase.value,
            "stoppedAtBatch": status.batch.index if stopped and status and status.batch else None,
            "machines": len(self._places),
            "machinesTouched": len(self._touched),
            "machinesUpdated": states.count((ComponentState.HEALTHY, f"{NEW}")),
            "machinesRolledBack": sum(state is ComponentState.ROLLED_BACK for state, _ in states),
            "mostUnavailable": self._most_down,
        }
