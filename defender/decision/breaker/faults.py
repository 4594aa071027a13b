"""Faults of nodes and their start. Pure, and derived from objects alone.

A node is faulty if it is not Ready, or while an acting job is open for it, because rules observe
faults that the kubelet does not. Not faulty is a node that is only cordoned, one that became not
Ready under one of our permits, and one that has never been ready or is being deleted, as the census
knows.

Times come from the objects, so a restart changes no result. Hosts write some of them by their own
clocks. So a fault begins not before the node was last observed ready, and not after it was
observed.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from defender.decision.jobs import JobViewStatus, ObservedJob
from defender.decision.ledger import LedgerPermit
from kubenode.runtime.hosttime import as_written
from kubenode.runtime.kube.objects import Node

SLACK = timedelta(seconds=2)
"""Tolerance, because conditions have a resolution of a second: a change this shortly before a grant
counts as after it.
"""


@dataclass(frozen=True, slots=True)
class Climb:
    """An escalation: a job of `rule` went on to `rung`."""

    job: str
    rule: str
    rung: int
    at: datetime


@dataclass(frozen=True, slots=True)
class JobReport:
    """What one job reports about its node."""

    open: bool
    since: datetime
    fault_class: str
    climbs: tuple[Climb, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeFault:
    """A fault of a node.

    open: the node is unhealthy now. False: a job that reported a fault is over.
    classes: fault classes of its open jobs. Empty if it is only not Ready.
    """

    since: datetime
    open: bool
    classes: frozenset[str] = frozenset()


def report_job(job: ObservedJob, now: datetime) -> JobReport | None:
    """Return the report of the job, None if it reports no fault.

    No fault are dry runs, harmless jobs, planned events, symptoms during the startup grace, and
    faults that cleared before the job began.
    """
    if not (job.acts and job.disrupts) or job.spec.deadline is not None:
        return None
    if job.in_startup_grace or (job.is_unbegun and not job.open):
        return None
    since = min(job.metadata.creation_timestamp or now, now)
    return JobReport(job.open, since, job.spec.fault_class, tuple(climbs(job, since, now)))


def climbs(job: ObservedJob, since: datetime, now: datetime) -> Iterable[Climb]:
    """Yield the escalations of the job, with times as exact as its steps show."""
    for rung in range(job.spec.start_rung + 1, job.status.rung + 1):
        at = _came_to(rung, job.status) or since
        name, rule = job.metadata.name, job.spec.remedier.name
        yield Climb(name, rule, rung, min(at, now))


def _came_to(rung: int, status: JobViewStatus) -> datetime | None:
    began = [step.started_at for step in status.steps if step.rung >= rung and step.started_at]
    ends = (step.finished_at or step.started_at for step in status.steps if step.rung < rung)
    return min(began) if began else max((end for end in ends if end), default=None)


def not_ready_since(
    node: Node, now: datetime, last_ready: datetime | None, before: datetime | None
) -> datetime | None:
    """Return since when the node is not ready, None if it is ready.

    last_ready: when this node was last observed ready, None for never.
    before: the previous result, None if the node has been ready since.
    """
    if node.is_ready:
        return None
    ready = node.ready_condition
    turned = ready.last_transition_time if ready is not None else None
    written_at = as_written(turned) if turned is not None else None
    since = min(max(written_at or now, last_ready or written_at or now), now)
    return since if before is None else min(before, since)


def excused(since: datetime, permits: Iterable[LedgerPermit]) -> bool:
    """Return whether the node became not ready under a permit, which is the effect of our own
    act.
    """
    return any(each.granted_at <= since + SLACK for each in permits)


def fault_of(not_ready: datetime | None, jobs: Iterable[JobReport]) -> NodeFault | None:
    """Return the present fault since its first sign; without one, the latest of a closed job, or
    None.
    """
    reports = list(jobs)
    current = [job for job in reports if job.open]
    signs = [job.since for job in current] + ([not_ready] if not_ready is not None else [])
    if signs:
        return NodeFault(min(signs), True, frozenset(job.fault_class for job in current))
    past = max((job.since for job in reports), default=None)
    return NodeFault(past, False) if past is not None else None
