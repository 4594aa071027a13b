"""State of one node for display: what a cell of the fleet shows. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from defender.decision.census import CensusMember, NodeHealth
from defender.decision.jobs import ObservedJob
from defender.decision.ledger import LedgerPermit
from kubenode.api.cordon import CORDONED_BY
from kubenode.api.v1alpha1.remedyoperationjob import JobPhase
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
FOR_PEOPLE = (JobPhase.AWAITING_APPROVAL, JobPhase.NEEDS_HUMAN)
ACTIVE_PHASES = (JobPhase.RUNNING, JobPhase.VERIFYING)


@dataclass(frozen=True, slots=True)
class Cell:
    """A node as the fleet shows it.

    why: a sentence, "" if the state says it all.
    cordoned_by: a job's mark, SOMEBODY, or "" for a schedulable node.
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


def cell_of(
    node: Node,
    member: CensusMember | None,
    jobs: Iterable[ObservedJob],
    permits: Iterable[LedgerPermit],
) -> Cell:
    """Return the cell of the node.

    jobs: open jobs of the node.
    permits: permits held on it.
    """
    labels = node.metadata.labels
    job = leading(jobs)
    state, why = _state(node, member, job, list(permits))
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
    node: Node, member: CensusMember | None, job: ObservedJob | None, permits: list[LedgerPermit]
) -> tuple[NodeDisplayState, str]:
    if job is not None and (state := of_job(job)):
        return state, job_sentence(job)
    if permits:
        permit = permits[0]
        return (
            NodeDisplayState.REPAIRING,
            f"{permit.holder.kind} {permit.holder.name} holds {permit.name}",
        )
    health = member.health if member else NodeHealth.UNHEALTHY
    if health is NodeHealth.LEAVING:
        return NodeDisplayState.LEAVING, "is being deleted"
    if health is NodeHealth.STARTING:
        return NodeDisplayState.STARTING, "has never been ready"
    if job is not None or (health is NodeHealth.UNHEALTHY and not node.is_ready):
        return NodeDisplayState.FAULTY, job_sentence(job) if job else not_ready(node)
    if node.spec.unschedulable:
        return NodeDisplayState.CORDONED, f"cordoned by {cordoned_by(node)}"
    return NodeDisplayState.HEALTHY, ""


def of_job(job: ObservedJob) -> NodeDisplayState | None:
    """Return the state by the job, None if the job has only begun or may never act."""
    if job.status.phase in FOR_PEOPLE:
        return NodeDisplayState.PERSON
    if not job.acts:
        return None
    if job.status.hold is not None or job.status.phase == JobPhase.AWAITING_PERMIT:
        return NodeDisplayState.ON_HOLD
    return NodeDisplayState.REPAIRING if job.status.phase in ACTIVE_PHASES else None


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
