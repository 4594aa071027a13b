"""Maps changes of objects to the nodes to decide on again and the jobs to reconcile.

Changes are stored in the facts first, before anything is reconciled.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from kubenode.api.v1alpha1 import (
    HoldReason,
    HostEvent,
    HostProbe,
    JobPhase,
    NodeRecord,
    RemedyOperationJob,
)
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.node_events import node_of
from kubenode.runtime.kube.objects import Event, Node
from remedy.job.model import FINALIZER, CloseReason, Job
from remedy.job.store import NODE_INDEX, beyond
from remedy.noderecord.store import OPEN_JOBS
from remedy.plannedevents.access import approves
from remedy.remedier.facts import FactStore
from remedy.remedier.past import Past
from rules.condition_clock import ConditionClock
from rules.nodereports import node_reports

JOBS_OF_NODE, JOBS_OF_RULE, JOBS_OF_AGENT = NODE_INDEX, "remedier", "agent"
"""Indexes of the jobs."""


def index(jobs: Informer[RemedyOperationJob]) -> None:
    jobs.add_index(JOBS_OF_NODE, lambda job: (job.spec.node_name,))
    jobs.add_index(JOBS_OF_RULE, _rule_of)
    jobs.add_index(JOBS_OF_AGENT, lambda job: (job.spec.agent,))
    jobs.add_index(OPEN_JOBS, lambda job: () if job.status.phase.closed else (job.spec.node_name,))


def latest_first(nodes: Iterable[Node], now: datetime) -> list[str]:
    """Return names of Nodes, those with the latest change of a condition first: after a start, new
    faults do not wait for healthy nodes.
    """
    return [n.metadata.name for n in sorted(nodes, key=lambda node: _unchanged_for(node, now))]


def _unchanged_for(node: Node, now: datetime) -> timedelta:
    """Return for how long no condition changed, each by its reporter's clock."""
    clock = ConditionClock()
    clock.take(node_reports(node), now)
    facts = clock.facts().values()
    return min((now - (fact.began or fact.since) for fact in facts), default=timedelta.max)


class NodeMapper:
    """Mappers to nodes. The one for Nodes themselves is the remedier's."""

    def __init__(self, facts: FactStore) -> None:
        self._facts = facts

    def event(self, key: str, old: Event | None, new: Event | None) -> Iterable[str]:
        node = self._facts.event_changed(old, new)
        return () if node is None else (node,)

    def host_event(self, key: str, old: HostEvent | None, new: HostEvent | None) -> Iterable[str]:
        return self._facts.host_event_changed(old, new)

    def probe(self, key: str, old: HostProbe | None, new: HostProbe | None) -> Iterable[str]:
        node = self._facts.probe_changed(old, new)
        return () if node is None else (node,)

    def record(self, key: str, old: NodeRecord | None, new: NodeRecord | None) -> Iterable[str]:
        """Map a deleted record to its node, which must be decided on again."""
        if new is not None:
            return ()
        self._facts.record_deleted(key)
        return (key,)

    def job(
        self, key: str, old: RemedyOperationJob | None, new: RemedyOperationJob | None
    ) -> Iterable[str]:
        """Map a job that opened, made progress or disappeared to its node."""
        job = new or old
        if job is None:
            return ()
        if old is not None and new is not None and old is not new:
            superseded = Job.of(new).close_reason is CloseReason.SUPERSEDED
            if _counts_alike(old, new) and not superseded:
                return ()
        return (job.spec.node_name,)


def _counts_alike(old: RemedyOperationJob, new: RemedyOperationJob) -> bool:
    """Report whether both versions lead to the same decision on the node."""
    a, b = old.status, new.status
    if a.evidence_false_since != b.evidence_false_since:
        return False
    if a.phase is b.phase:
        return True
    # The progress of an open job matters only through what it has done.
    both = a.phase.closed is b.phase.closed is False
    return both and Past.of(old) == replace(Past.of(new), phase=a.phase)


class JobMapper:
    """Mappers to jobs."""

    def __init__(self, jobs: Informer[RemedyOperationJob]) -> None:
        self._jobs = jobs

    def of(self, node: str) -> list[str]:
        """Return the names of the open jobs of a node; its changes do not concern closed ones."""
        return [job.metadata.name for job in self._jobs.by(OPEN_JOBS, node)]

    def record(self, key: str, old: NodeRecord | None, new: NodeRecord | None) -> list[str]:
        """Map a record to the node's closed jobs, which may be deleted once they are recorded."""
        on_node = self._jobs.by(JOBS_OF_NODE, key)
        waiting = {job.metadata.name for job in on_node if job.status.phase.closed and _stays(job)}
        return sorted(waiting | beyond(on_node))

    def of_agent(self, agent: str) -> list[str]:
        return [job.metadata.name for job in self._jobs.by(JOBS_OF_AGENT, agent)]

    def job(
        self, key: str, old: RemedyOperationJob | None, new: RemedyOperationJob | None
    ) -> Iterable[str]:
        """Map a job to itself and the job that it supersedes. If it starts or stops approving an
        event, jobs that wait for other machines of an event are included.
        """
        job = new or old
        if job is None:
            return (key,)
        wakes = [key, job.spec.supersedes] if job.spec.supersedes else [key]
        if job.spec.host_events and _ready(old) is not _ready(new):
            wakes += (j.metadata.name for j in self._jobs.cache.values() if _waits_for_others(j))
        return wakes

    def node(self, key: str, old: Node | None, new: Node | None) -> Iterable[str]:
        return self.of(key)

    def event(self, key: str, old: Event | None, new: Event | None) -> Iterable[str]:
        event = new or old
        return self.of(node_of(event)) if event is not None else ()

    def host_event(self, key: str, old: HostEvent | None, new: HostEvent | None) -> Iterable[str]:
        about = {event.spec.node.name for event in (old, new) if event is not None}
        return [job for node in about for job in self.of(node)]

    def probe(self, key: str, old: HostProbe | None, new: HostProbe | None) -> Iterable[str]:
        answered = new is not None and new.status.answered_at is not None
        return self.of(new.spec.node_name) if new is not None and answered else ()


def _stays(job: RemedyOperationJob) -> bool:
    return FINALIZER in job.metadata.finalizers or job.status.phase is JobPhase.SHADOWED


def _ready(job: RemedyOperationJob | None) -> bool:
    return job is not None and not job.status.phase.closed and approves(job)


def _waits_for_others(job: RemedyOperationJob) -> bool:
    hold = job.status.hold
    if job.status.phase is not JobPhase.RUNNING:
        return False
    is_waiting = hold is not None and hold.reason == HoldReason.GROUP_WAIT
    return is_waiting and bool(job.spec.host_events)


def _rule_of(job: RemedyOperationJob) -> tuple[str, ...]:
    return (job.spec.remedier.name,) if job.spec.remedier is not None else ()
