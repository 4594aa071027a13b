"""State of one node for display: what a cell of the fleet shows. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from defender.decision.census import NodeHealth
from defender.decision.jobs import ObservedJob
from defender.decision.ledger import LedgerPermit
from defender.overview.faults import NO_CONDITIONS, NOT_READY, FaultConditions
from defender.overview.situation import (
    LEAVING_OPERATIONS,
    NodeEvidence,
    NodeSituation,
    assess_node,
    is_on_hold,
    is_repair,
    is_repairing,
    waits_for_person,
)
from kubenode.api.cordon import CORDONED_BY
from kubenode.runtime.kube.objects import Node

ZONE = "topology.kubernetes.io/zone"
RACK = "kubenode.io/rack"
POOL = "kubenode.io/pool"
SOMEBODY = "somebody else"
"""Who cordoned a node, if it was no job of ours. Nodes do not record that."""


class NodeDisplayState(StrEnum):
    """States, the most important first. A node has the first one that applies."""

    PERSON = "Waiting for a person"
    ON_HOLD = "Held"
    REPAIRING = "Repairing"
    FAULTY = "Faulty"
    UPGRADING = "Upgrading"
    CORDONED = "Cordoned"
    LEAVING = "Leaving"
    STARTING = "Starting"
    HEALTHY = "Healthy"

    @property
    def letter(self) -> str:
        """One letter for long lists of nodes, also the name of the symbol."""
        return _LETTERS[self]


_LETTERS = {
    NodeDisplayState.PERSON: "p",
    NodeDisplayState.ON_HOLD: "w",
    NodeDisplayState.REPAIRING: "r",
    NodeDisplayState.FAULTY: "f",
    NodeDisplayState.UPGRADING: "u",
    NodeDisplayState.CORDONED: "c",
    NodeDisplayState.LEAVING: "l",
    NodeDisplayState.STARTING: "s",
    NodeDisplayState.HEALTHY: "h",
}
OF_LETTER = {letter: state for state, letter in _LETTERS.items()}
TROUBLE = (
    NodeDisplayState.PERSON,
    NodeDisplayState.ON_HOLD,
    NodeDisplayState.REPAIRING,
    NodeDisplayState.FAULTY,
    NodeDisplayState.CORDONED,
)


UNKNOWN_SITUATION = NodeSituation("")


@dataclass(frozen=True, slots=True)
class Cell:
    """A node as the fleet shows it.

    why: a sentence, "" if the state says it all.
    cordoned_by: a job's mark, SOMEBODY, or "" for a schedulable node.
    situation: its faults and what is done, apart from each other.
    """

    name: str
    zone: str
    rack: str
    state: NodeDisplayState
    why: str = ""
    cordoned_by: str = ""
    job: str = ""
    phase: str = ""
    reason: str = ""
    situation: NodeSituation = UNKNOWN_SITUATION


def cell_of(known: NodeEvidence, conditions: FaultConditions = NO_CONDITIONS) -> Cell:
    """Return the cell of the node. conditions: those that report faults."""
    node = known.node
    labels = node.metadata.labels
    job = leading(known.jobs)
    situation = assess_node(known, conditions)
    state, why = _state(known, situation, job)
    return Cell(
        node.metadata.name,
        labels.get(ZONE, ""),
        labels.get(RACK, ""),
        state,
        why,
        cordoned_by(node),
        job.metadata.name if job else "",
        job.status.phase if job else "",
        job.status.hold.reason if job and job.status.hold else "",
        situation,
    )


def cordoned_by(node: Node) -> str:
    if not node.spec.unschedulable:
        return ""
    return node.metadata.annotations.get(CORDONED_BY) or SOMEBODY


def leading(jobs: Iterable[ObservedJob]) -> ObservedJob | None:
    """Return the open job to show: one that may act, else the latest. None without jobs."""
    return max(jobs, key=lambda job: (job.acts, born(job), job.metadata.name), default=None)


def born(job: ObservedJob) -> float:
    created = job.metadata.creation_timestamp
    return created.timestamp() if created else 0.0


def _state(
    known: NodeEvidence, situation: NodeSituation, job: ObservedJob | None
) -> tuple[NodeDisplayState, str]:
    """Return the first state that applies, with a sentence."""
    node = known.node
    if job is not None and (state := of_job(job)):
        return state, job_sentence(job)
    if job is None and (repairs := list(filter(is_repair, known.permits))):
        return NodeDisplayState.REPAIRING, _permit_sentence(repairs[0])
    health = known.member.health if known.member else NodeHealth.UNHEALTHY
    if health is NodeHealth.LEAVING:
        return NodeDisplayState.LEAVING, "is being deleted"
    if leaving := [each for each in known.permits if each.operation in LEAVING_OPERATIONS]:
        return NodeDisplayState.LEAVING, _permit_sentence(leaving[0])
    if health is NodeHealth.STARTING:
        return NodeDisplayState.STARTING, "has never been ready"
    if job is not None or situation.faults:
        return NodeDisplayState.FAULTY, fault_sentence(node, situation, job)
    if situation.upgrading:
        return NodeDisplayState.UPGRADING, upgrade_sentence(known)
    if node.spec.unschedulable:
        return NodeDisplayState.CORDONED, f"cordoned by {cordoned_by(node)}"
    return NodeDisplayState.HEALTHY, ""


def _permit_sentence(permit: LedgerPermit) -> str:
    return f"{permit.holder.kind} {permit.holder.name} holds {permit.name}"


def upgrade_sentence(known: NodeEvidence) -> str:
    if known.permits:
        return _permit_sentence(known.permits[0])
    return f"cordoned by {cordoned_by(known.node)}"


def fault_sentence(node: Node, situation: NodeSituation, job: ObservedJob | None) -> str:
    """Return what is wrong, and what rules in DryRun would do about it."""
    if job is not None:
        return job_sentence(job)
    texts = [
        not_ready(node) if fault.name == NOT_READY else fault.name for fault in situation.faults
    ]
    if situation.dry_runs:
        texts.append(f"in DryRun: {', '.join(situation.dry_runs)}")
    return "; ".join(texts)


def of_job(job: ObservedJob) -> NodeDisplayState | None:
    """Return the state by the job, None if it has only begun, only notifies or may never act."""
    if waits_for_person(job):
        return NodeDisplayState.PERSON
    if is_on_hold(job):
        return NodeDisplayState.ON_HOLD
    return NodeDisplayState.REPAIRING if is_repairing(job) else None


def job_sentence(job: ObservedJob) -> str:
    hold = job.status.hold
    if hold is not None and hold.message:
        return hold.message
    return f"{job.spec.remedier.name or 'a job that a person started'}: {job.status.phase}"


def not_ready(node: Node) -> str:
    condition = node.ready_condition
    if condition is None:
        return "says nothing about being ready"
    return f"Ready is {condition.status}" + (f": {condition.reason}" if condition.reason else "")
