"""Coverage and consistency of each component over the fleet. Pure.

- coverage: machines to which the component is not assigned.
- consistency: versions, contents and states that differ between machines or from the assignment.

Machines in mode Observe and those being deleted count like others.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kubenode.api.v1alpha1 import Machine
from kubenode.api.v1alpha1.machinestatus import ComponentState, ComponentStatus, RunState
from kubenode.api.v1alpha1.machinework import AssignedComponent
from machine.machine.success import BAD, reported, status_of, succeeded

NOT_REPORTED = "not reported"


@dataclass(slots=True)
class Family:
    """One component over the fleet, in all its versions.

    assigned: number of machines that have an assignment, to be present or absent.
    lacking: names of machines to which no set assigns it.
    well: number of machines on which it is as assigned and that are healthy.
    versions: machines by installed version; `not reported` if the agent has not reported it.
    wanted: machines by MachineComponent.
    contents: machines by whether files and units are as assigned.
    run_states, states: machines by what their agents report.
    drifting: names of machines on which something has drifted.
    bad: names of machines on which it failed or is unhealthy.
    """

    name: str
    assigned: int = 0
    lacking: list[str] = field(default_factory=list)
    well: int = 0
    versions: Counter[str] = field(default_factory=Counter)
    wanted: Counter[str] = field(default_factory=Counter)
    contents: Counter[bool] = field(default_factory=Counter)
    run_states: Counter[RunState] = field(default_factory=Counter)
    states: Counter[ComponentState] = field(default_factory=Counter)
    drifting: list[str] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)

    @property
    def consistent(self) -> bool:
        """Whether all machines that have it have one version, with content as assigned and without
        drift.
        """
        return len(self.versions) <= 1 and not self.contents[False] and not self.drifting


def families(machines: Iterable[Machine]) -> list[Family]:
    """Return every component that is assigned to some machine, by name."""
    fleet = list(machines)
    by_name: dict[str, Family] = {}
    for machine in fleet:
        for assigned in machine.spec.components:
            family = by_name.setdefault(assigned.name, Family(assigned.name))
            _count(family, machine, assigned, status_of(machine, assigned.name))
    for family, machine in _lacking(by_name, fleet):
        family.lacking.append(machine.metadata.name)
    for family in by_name.values():
        for names in (family.lacking, family.drifting, family.bad):
            names.sort()
    return [by_name[name] for name in sorted(by_name)]


def _lacking(
    by_name: dict[str, Family], fleet: Iterable[Machine]
) -> Iterator[tuple[Family, Machine]]:
    for machine in fleet:
        has = {assigned.name for assigned in machine.spec.components}
        for name in by_name.keys() - has:
            yield by_name[name], machine


def _count(
    family: Family, machine: Machine, assigned: AssignedComponent, status: ComponentStatus | None
) -> None:
    family.assigned += 1
    family.wanted[assigned.component] += 1
    family.well += succeeded(assigned, status, machine)
    if status is None:
        family.versions[NOT_REPORTED] += 1
        family.run_states[RunState.UNKNOWN] += 1
        family.states[ComponentState.PENDING] += 1
        family.contents[False] += 1
        return
    family.versions[status.version or RunState.ABSENT.value] += 1
    family.run_states[status.run_state] += 1
    family.states[status.state] += 1
    as_assigned = reported(assigned, status) and status.config_hash == assigned.config_hash
    family.contents[as_assigned] += 1
    if status.drift:
        family.drifting.append(machine.metadata.name)
    if status.state in BAD:
        family.bad.append(machine.metadata.name)
