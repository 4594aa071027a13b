"""Fault and activity of one node, which are two dimensions. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from defender.decision.census import CensusMember
from defender.decision.jobs import ObservedJob
from defender.decision.ledger import LedgerPermit
from defender.overview.faults import (
    NO_CONDITIONS,
    FaultConditions,
    ObservedFault,
    find_faults,
)
from defender.overview.records import DryRunView
from kubenode.api.cordon import CordonState
from kubenode.api.v1alpha1 import Operation
from kubenode.api.v1alpha1.remedyoperationjob import JobPhase
from kubenode.runtime.kube.objects import Node

FOR_PEOPLE = (JobPhase.AWAITING_APPROVAL, JobPhase.NEEDS_HUMAN)
ACTIVE_PHASES = (JobPhase.RUNNING, JobPhase.VERIFYING)
ROLLOUT_KIND = "MachineComponentSet"
LEAVING_OPERATIONS = (Operation.SCALE_IN, Operation.DELETE)


@dataclass(frozen=True, slots=True)
class NodeSituation:
    """What is wrong with a node, and what is done about it.

    faults: its faults, each name once.
    person, on_hold: numbers of its jobs that wait for a person, and that are held.
    repairing: a step of class Host or above runs or is verified.
    upgrading: a rollout holds a permit for it, or has cordoned it.
    dry_runs: rules in DryRun that would repair it.
    jobs: number of its open jobs that may act.
    """

    name: str
    faults: tuple[ObservedFault, ...] = ()
    person: int = 0
    on_hold: int = 0
    repairing: bool = False
    upgrading: bool = False
    dry_runs: tuple[str, ...] = ()
    jobs: int = 0

    @property
    def since(self) -> datetime | None:
        """The start of the oldest fault, None if it is not known."""
        return min((fault.since for fault in self.faults if fault.since), default=None)

    @property
    def unattended(self) -> bool:
        """Whether the node has a fault for which there is no job and no dry run."""
        return bool(self.faults) and not (self.jobs or self.dry_runs)

    @property
    def undisturbed(self) -> bool:
        """Whether the node has a fault and jobs, of which none disrupts it or waits."""
        busy = self.repairing or self.upgrading or self.person or self.on_hold
        return bool(self.faults and self.jobs) and not busy


@dataclass(frozen=True, slots=True)
class NodeEvidence:
    """What is known of one node.

    jobs: its open jobs.
    permits: permits held on it.
    dry_runs: see current_dry_runs.
    """

    node: Node
    member: CensusMember | None
    jobs: Sequence[ObservedJob] = ()
    permits: Sequence[LedgerPermit] = ()
    dry_runs: Sequence[DryRunView] = ()


def assess_node(known: NodeEvidence, conditions: FaultConditions = NO_CONDITIONS) -> NodeSituation:
    """Return the situation of the node. conditions: see FaultConditions.of."""
    faults = find_faults(
        known.node, known.member, known.jobs, known.permits, known.dry_runs, conditions
    )
    if not (known.jobs or known.permits or known.dry_runs):  # most nodes
        name, upgrading = known.node.metadata.name, is_cordoned_by_rollout(known.node)
        return NodeSituation(name, faults, upgrading=upgrading)
    jobs = [job for job in known.jobs if job.acts]
    return NodeSituation(
        known.node.metadata.name,
        faults,
        person=sum(waits_for_person(job) for job in known.jobs),
        on_hold=sum(is_on_hold(job) for job in jobs),
        repairing=any(is_repairing(job) for job in jobs) or _permits_repair(known),
        upgrading=any(permit.operation is Operation.ROLLOUT for permit in known.permits)
        or is_cordoned_by_rollout(known.node),
        dry_runs=tuple(run.remedier for run in known.dry_runs),
        jobs=len(jobs),
    )


def is_cordoned_by_rollout(node: Node) -> bool:
    """Return whether a rollout has cordoned the node."""
    cordon = CordonState(node.spec.unschedulable, node.metadata.annotations)
    return cordon.unschedulable and any(h.kind == ROLLOUT_KIND for h in cordon.holders)


def waits_for_person(job: ObservedJob) -> bool:
    return job.status.phase in FOR_PEOPLE


def is_on_hold(job: ObservedJob) -> bool:
    """Return whether the job waits for something else than a person."""
    waits = job.status.hold is not None or job.status.phase == JobPhase.AWAITING_PERMIT
    return job.acts and waits and not waits_for_person(job)


def is_repairing(job: ObservedJob) -> bool:
    """Return whether the job does or verifies steps of class Host or above."""
    active = job.status.phase in ACTIVE_PHASES and not is_on_hold(job)
    return job.acts and active and job.is_disrupting


def is_repair(permit: LedgerPermit) -> bool:
    return permit.operation is not Operation.ROLLOUT and permit.operation not in LEAVING_OPERATIONS


def _permits_repair(known: NodeEvidence) -> bool:
    """Return whether a permit tells of a repair that no open job of the node does."""
    return not known.jobs and any(is_repair(permit) for permit in known.permits)


def situations(
    nodes: Iterable[NodeEvidence], conditions: FaultConditions
) -> tuple[NodeSituation, ...]:
    return tuple(assess_node(each, conditions) for each in nodes)
