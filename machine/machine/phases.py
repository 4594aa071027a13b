"""Phases of a Machine and the transitions between them. Pure.

A phase is for people. It is computed from the facts in each reconcile, and stored only to report
one transition at a time, so that an observer sees no jumps.
"""

from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from kubenode.api.v1alpha1.machinestatus import MachinePhase

Phase = MachinePhase

FIRST = (Phase.PENDING, Phase.IMPORTING)
EDGES: dict[Phase, set[Phase]] = {
    Phase.PENDING: {Phase.PROVISIONING, Phase.DELETING},
    Phase.PROVISIONING: {Phase.PROVISIONED, Phase.FAILED, Phase.DELETING},
    Phase.PROVISIONED: {Phase.INITIALIZING, Phase.FAILED, Phase.DELETING},
    Phase.IMPORTING: {Phase.INITIALIZING, Phase.FAILED, Phase.DELETING},
    Phase.INITIALIZING: {Phase.RUNNING, Phase.FAILED, Phase.DELETING},
    Phase.RUNNING: {
        Phase.UPDATING,
        Phase.DEGRADED,
        Phase.UNREACHABLE,
        Phase.FAILED,
        Phase.DELETING,
    },
    Phase.UPDATING: {
        Phase.RUNNING,
        Phase.DEGRADED,
        Phase.UNREACHABLE,
        Phase.FAILED,
        Phase.DELETING,
    },
    Phase.DEGRADED: {Phase.RUNNING, Phase.UNREACHABLE, Phase.FAILED, Phase.DELETING},
    Phase.UNREACHABLE: {Phase.RUNNING, Phase.DEGRADED, Phase.FAILED, Phase.DELETING},
    Phase.FAILED: {Phase.IMPORTING, Phase.DELETING},
    Phase.DELETING: set(),
}
"""Phases that may follow each phase."""


class NodeState(StrEnum):
    """State of the Node. NONE: no Node is expected."""

    NONE = "None"
    READY = "Ready"
    NOT_READY = "NotReady"


class ComponentProgress(StrEnum):
    """Progress of the components of a Machine.

    DONE: all assignments are in force, and no set has yet to assign.
    UNDONE: as DONE, but an attempt failed, or a set has yet to assign.
    CHANGING: the agent has not reported on all assignments yet.
    BAD: a component impairs the host.
    """

    DONE = "Done"
    UNDONE = "Undone"
    CHANGING = "Changing"
    BAD = "Bad"


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """The facts that determine the phase.

    provision: the Machine is provisioned; otherwise it is imported.
    failed: its instance could not be created or is gone, or its host did not join in time.
    token: a client token is stored.
    instance: it has a provider ID.
    joined: its host has joined once.
    initialized: it has been complete once.
    lease: its agent is alive.
    settled: it has been healthy for minReady, or never unhealthy since its initialization.
    """

    provision: bool
    deleting: bool
    failed: bool
    token: bool
    instance: bool
    joined: bool
    initialized: bool
    lease: bool
    node: NodeState
    components: ComponentProgress
    settled: bool

    @property
    def silent(self) -> bool:
        """Whether nothing shows that the host is alive."""
        return not self.lease and self.node is not NodeState.READY

    @property
    def well(self) -> bool:
        """Whether agent, Node and components are well."""
        return (
            self.lease
            and self.node is not NodeState.NOT_READY
            and self.components is not ComponentProgress.BAD
        )


def phase_of(facts: MachineFacts) -> Phase:
    """Return the phase by the facts alone."""
    if facts.deleting:
        return Phase.DELETING
    if facts.failed:
        return Phase.FAILED
    if facts.initialized:
        return _lived_in(facts)
    if facts.joined:
        return Phase.INITIALIZING
    if not facts.provision:
        return Phase.IMPORTING
    if facts.instance:
        return Phase.PROVISIONED
    return Phase.PROVISIONING if facts.token else Phase.PENDING


def _lived_in(facts: MachineFacts) -> Phase:
    if facts.silent:
        return Phase.UNREACHABLE
    if not facts.well or not facts.settled:
        return Phase.DEGRADED
    return Phase.UPDATING if facts.components is ComponentProgress.CHANGING else Phase.RUNNING


def next_phase(before: Phase | None, facts: MachineFacts) -> Phase:
    """Return the next phase on the shortest way from the stored phase to the phase by the facts.

    If no way leads there, somebody else wrote the stored phase; return the phase by the facts.
    """
    there = phase_of(facts)
    if before is None or before is there:
        return there
    return _find_first_phase(before, there) or there


@cache
def _find_first_phase(start: Phase, end: Phase) -> Phase | None:
    """Return the first phase on a shortest way, None if there is no way."""
    visited, routes = {start}, deque((edge, edge) for edge in Phase if edge in EDGES[start])
    while routes:
        first, at = routes.popleft()
        if at is end:
            return first
        visited.add(at)
        if at is Phase.FAILED:
            continue  # no way leads through Failed
        routes.extend((first, edge) for edge in Phase if edge in EDGES[at] and edge not in visited)
    return None
