"""What counts as a fault of a node, and since when. Pure, and read from objects alone.

A node is unhealthy by itself when it is not Ready, or while an acting job is open for it: rules
see faults that the kubelet does not. A node that waits only because somebody cordoned it has no
fault, nor has one that became not Ready under a permit of ours, nor one that has yet to be ready
for the first time or is being deleted: the census knows these.

Times come from the objects, so a restart changes no answer. Hosts write some of them by their own
clocks, so no fault begins before the node was last seen ready, nor after we learned of it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from defender.jobs import JobViewStatus, ObservedJob
from defender.ledger import LedgerPermit
from kubenode.runtime.hosttime import as_written
from kubenode.runtime.kube.objects import Node

SLACK = timedelta(seconds=2)
"""Conditions are written to the second: a change that soon before a grant came after it."""


@dataclass(frozen=True, slots=True)
class Climb:
    """A job of `rule` that gave up a rung and went to `rung`."""

    job: str
    rule: str
    rung: int
    at: datetime


@dataclass(frozen=True, slots=True)
class JobReport:
    """What one job tells of its node."""

    open: bool
    since: datetime
    fault_class: str
    climbs: tuple[Climb, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeFault:
    """open     the node is unhealthy now; else a job that told of it is over
    classes  fault classes of its open jobs; none: it is not Ready, and no job says more
    """

    since: datetime
    open: bool
    classes: frozenset[str] = frozenset()


def told_by(job: ObservedJob, now: datetime) -> JobReport | None:
    """None for jobs that are no faults: shadows, notices, planned events with their time, what
    shows while a node comes up, and what went by itself before its job began.
    """
    if not (job.acts and job.disrupts) or job.spec.deadline is not None:
        return None
    if job.in_startup_grace or (job.is_unbegun and not job.open):
        return None
    since = min(job.metadata.creation_timestamp or now, now)
    return JobReport(job.open, since, job.spec.fault_class, tuple(climbs(job, since, now)))


def climbs(job: ObservedJob, since: datetime, now: datetime) -> Iterable[Climb]:
    """When the job came to each rung after its first: as near as its steps tell."""
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
    """last_ready  when this node was last seen ready, if it was
    before      what this said last time, if the node has not been ready since
    """
    if node.is_ready:
        return None
    ready = node.ready_condition
    turned = ready.last_transition_time if ready is not None else None
    said = as_written(turned) if turned is not None else None
    since = min(max(said or now, last_ready or said or now), now)
    return since if before is None else min(before, since)


def excused(since: datetime, held: Iterable[LedgerPermit]) -> bool:
    """Whether the node became not Ready under a permit: that is our own doing."""
    return any(each.granted_at <= since + SLACK for each in held)


def fault_of(not_ready: datetime | None, jobs: Iterable[JobReport]) -> NodeFault | None:
    """The current fault since its first sign; without one, the latest that a closed job tells."""
    told = list(jobs)
    current = [job for job in told if job.open]
    signs = [job.since for job in current] + ([not_ready] if not_ready is not None else [])
    if signs:
        return NodeFault(min(signs), True, frozenset(job.fault_class for job in current))
    past = max((job.since for job in told), default=None)
    return NodeFault(past, False) if past is not None else None
