"""The phases of a Machine and the edges between them. Pure.

A phase is for people: it is worked out anew from the facts at each look, and nothing but these is
remembered. Where it was before only says by which edge it goes on: one edge a look, so that who
follows it sees no jump.
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


class NodeState(StrEnum):
    """NONE: no Node is expected."""

    NONE = "None"
    READY = "Ready"
    NOT_READY = "NotReady"


class ComponentProgress(StrEnum):
    """DONE      each has what is assigned, and those that are to come have come
    UNDONE    likewise, or its attempt has ended without success
    CHANGING  an agent has not reported of all yet
    BAD       the host is the worse for one of them
    """

    DONE = "Done"
    UNDONE = "Undone"
    CHANGING = "Changing"
    BAD = "Bad"


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """provision    else imported
    failed       its instance was not made or is gone, or its host did not come in time
    token        a client token is written down
    instance     it has a provider's ID
    joined       its agent, and its Node if it is imported, came once
    initialized  it was whole once
    lease        its agent lives
    settled      it was well for minReady since it last was not
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
        """Nothing says that the host is there."""
        return not self.lease and self.node is not NodeState.READY

    @property
    def well(self) -> bool:
        return (
            self.lease
            and self.node is not NodeState.NOT_READY
            and self.components is not ComponentProgress.BAD
        )


def phase_of(facts: MachineFacts) -> Phase:
    """What the facts alone say."""
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
    """One edge on the way from the phase before to what the facts say.

    Where no way leads there the phase was not of this Machine's facts: somebody wrote it.
    """
    there = phase_of(facts)
    if before is None or before is there:
        return there
    return _way(before, there) or there


@cache
def _way(start: Phase, end: Phase) -> Phase | None:
    """The first edge of a shortest way, None for no way."""
    seen, ways = {start}, deque((edge, edge) for edge in Phase if edge in EDGES[start])
    while ways:
        first, at = ways.popleft()
        if at is end:
            return first
        seen.add(at)
        if at is Phase.FAILED:
            continue  # nothing passes through it that has not failed
        ways.extend((first, edge) for edge in Phase if edge in EDGES[at] and edge not in seen)
    return None
