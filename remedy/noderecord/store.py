"""Node records: read by every decision, written only here.

A job that closes is recorded before it may be deleted, and so is an open one that somebody deletes
after removing its finalizer. Decisions use the record as it will be written: it is at most one
write ahead of the stored one. A crash before that write loses nothing, since the job still exists,
or the result of a dry run is found again.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

from kubenode.api.step_text import GRANTED_VERDICT
from kubenode.api.v1alpha1 import (
    API_VERSION,
    Ask,
    Expression,
    NodeRecord,
    NodeRemedier,
    RemedyOperationJob,
)
from kubenode.api.v1alpha1.noderecord import EventMemory, NodeRecordSpec, WouldHave
from kubenode.runtime.clock import Clock
from kubenode.runtime.controller.result import DONE, Result
from kubenode.runtime.disruption.guard import never_frozen
from kubenode.runtime.fence import Fence
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import Node
from remedy.job.model import ACTING, Job
from remedy.noderecord import memory
from remedy.noderecord.evidence import (
    DryRunEvidenceIndex,
    DryRunMatch,
    find_attended_at,
    with_matches,
)
from remedy.remedier.past import Past
from rules.diagnose import Diagnosis
from rules.facts import FactSet

PLURAL = NodeRecord.resource.plural
NOT_YET = Result(timedelta(seconds=1))
EVENTS_PAUSE = timedelta(minutes=1)
"""Shortest interval between two writes of the Events of one node: the Events exist for an hour."""
OPEN_JOBS = "open jobs"
"""Index of jobs: the open ones by node."""


EventsUntil = Callable[[str, Expression | None, datetime | None], datetime | None]
"""Returns the timestamp of the youngest Event of a node that an expression names, up to a time."""


class Leave(Protocol):
    async def ask(self, ask: Ask) -> Any:
        """Return a Verdict, or why there is none."""
        ...


class Synced(Protocol):
    synced: asyncio.Event


class StoredEvents:
    """Events in stored records."""

    def __init__(self, records: Informer[NodeRecord]) -> None:
        self._records = records

    def ready(self) -> bool:
        return self._records.synced.is_set()

    def past_events(self) -> dict[str, EventMemory]:
        records = self._records.cache.items()
        stored = ((name, record.spec.past_events) for name, record in records)
        return {name: memory for name, memory in stored if memory is not None}


class NodeRecords:
    """Reads and writes node records.

    events_until: returns the timestamp of the youngest Event of a node that an expression names
    events: informers of Events: no timestamp is known until they have listed
    restored: returns why a restore of etcd from a backup stops acts, "" if none does
    """

    def __init__(
        self,
        kube: Kube,
        records: Informer[NodeRecord],
        jobs: Informer[RemedyOperationJob],
        nodes: Informer[Node],
        leave: Leave,
        clock: Clock,
        fence: Fence,
        events_until: EventsUntil,
        events: Sequence[Synced],
        restored: Callable[[], str] = never_frozen,
    ) -> None:
        self._restored = restored
        self._kube, self._records, self._jobs, self._nodes = kube, records, jobs, nodes
        self._leave, self._clock, self._fence = leave, clock, fence
        self._events_until = events_until
        self._sources: tuple[Synced, ...] = (records, jobs, nodes)
        self._events = events
        self.changed: Callable[[str], None] = lambda node: None
        self.evidence = DryRunEvidenceIndex()
        self.evidence_changed: Callable[[str], None] = lambda rule: None
        """Called with the name of a rule whose evidence in DryRun changed."""
        self._ahead: dict[str, NodeRecordSpec] = {}
        """Records that are not written yet, by node."""
        self._closed: dict[str, dict[str, Job]] = {}
        """Closed jobs that may not be recorded yet, by node."""
        self._asks: dict[str, list[tuple[str, datetime, Ask]]] = {}
        """Requests for Kube Defender, by node: rule, time of its result, request."""
        self._pasts: dict[str, tuple[NodeRecordSpec, tuple[Past, ...]]] = {}
        self._events_at: dict[str, float] = {}
        """Monotonic time at which the Events of a node were last taken in, by node."""

    # -- what happens ----------------------------------------------------------------------------

    def job_changed(
        self, key: str, old: RemedyOperationJob | None, new: RemedyOperationJob | None
    ) -> None:
        """Handle a change from the informer of jobs."""
        obj = new or old
        if obj is None or (new is not None and not new.status.phase.closed):
            return
        if old is not None and old.status.phase.closed:
            return  # it closed earlier
        job = Job.of(obj)
        if job.phase.closed:
            self._offer(job)
        elif job.spec.mode in ACTING and not self._restored():  # a backup may lack it
            self._offer(memory.person_deleted(job, self._clock.now()))

    def record_changed(self, key: str, old: NodeRecord | None, new: NodeRecord | None) -> None:
        """Handle a change from the informer of records: what another leader stored need not wait
        here.
        """
        if new is None:
            self._pasts.pop(key, None)
            self._ahead.pop(key, None)
            self._index(key, NodeRecordSpec())
            return
        if key not in self._ahead:
            self._index(key, new.spec)
        waiting = self._closed.pop(key, {})
        remaining = {name: job for name, job in waiting.items() if not self._has(new.spec, job)}
        if remaining:
            self._closed[key] = remaining

    # -- what is known ---------------------------------------------------------------------------

    def ready(self) -> bool:
        return all(source.synced.is_set() for source in self._sources)

    def spec(self, node: str) -> NodeRecordSpec:
        """Return the record as it will be written, with all closed jobs."""
        live = self._nodes.get(node)
        spec = self._ahead.get(node) or self._stored(node)
        if live is not None and spec.node_uid != live.metadata.uid:
            spec = NodeRecordSpec(node_uid=live.metadata.uid)
        if live is None or node not in self._closed or not self.ready():
            return spec
        for job in sorted(self._closed.pop(node).values(), key=lambda j: j.created):
            spec = self._with(spec, job)
        self._take(node, spec)
        return spec

    def past(self, node: str) -> list[Past]:
        """Return what counts for a decision: the record, and the open jobs."""
        spec = self.spec(node)
        known = self._pasts.get(node)
        if known is None or known[0] is not spec:
            known = (spec, memory.pasts(spec))
            if known[1]:
                self._pasts[node] = known
            else:
                self._pasts.pop(node, None)
        return [*known[1], *(Past.of(job) for job in self._jobs.by(OPEN_JOBS, node))]

    def recorded(self, job: Job) -> bool:
        """Report whether a closed job may be deleted without any effect on decisions; if not,
        record it.

        A job with an end that is not stored yet is not recorded: that write may be rejected, as
        after a restore of etcd. Its event from the informer records it.
        """
        live = self._nodes.get(job.spec.node_name)
        if live is None or live.metadata.uid != job.spec.node_uid:
            return True
        if self.ready() and self._has(self._stored(job.spec.node_name), job):
            return True
        stored = self._jobs.get(job.name)
        if stored is not None and stored.metadata.uid == job.uid and stored.status.phase.closed:
            self._offer(job)
        return False

    # -- what is learned -------------------------------------------------------------------------

    def judge(
        self,
        node: str,
        diagnosis: Diagnosis,
        facts: FactSet,
        booted_at: datetime | None,
        now: datetime,
    ) -> None:
        """Take in the current evidence of incidents that may still last."""
        spec, live = self.spec(node), self._nodes.get(node)
        if live is not None and (spec.jobs or spec.dry_runs):
            attended_at = find_attended_at(live, booted_at, self.past(node), now)
            self._take(node, memory.judged(spec, diagnosis, facts, now, attended_at))

    def add_dry_run(
        self, node: str, rule: NodeRemedier, result: WouldHave, ask: Ask | None
    ) -> None:
        """Take in what a rule in DryRun would have done. `ask`: its request to Kube Defender; None:
        it needs no permit.
        """
        name, generation = rule.metadata.name, rule.metadata.generation
        spec, fault_class = self.spec(node), rule.spec.fault_class
        self._take(node, memory.with_result(spec, name, fault_class, result, generation))
        if ask is not None:
            self._asks.setdefault(node, []).append((name, result.at, ask))

    def take_dry_run_matches(self, node: str, matches: Sequence[DryRunMatch]) -> None:
        """Take in the rules in DryRun that match the node now, with their conflicts."""
        if matches:
            self._take(node, with_matches(self.spec(node), matches))

    def take_events(self, node: str, memory: EventMemory | None) -> timedelta | None:
        """Take in the node's Events that must outlive this process; return when to call again,
        None: they are taken in.
        """
        spec = self.spec(node)
        if memory is None or memory == spec.past_events:
            return None  # stored Events expire by themselves
        now, before = self._clock.monotonic(), self._events_at.get(node)
        if before is not None and (passed := timedelta(seconds=now - before)) < EVENTS_PAUSE:
            return EVENTS_PAUSE - passed
        self._events_at[node] = now
        self._take(node, spec.model_copy(update={"past_events": memory}))
        return None

    # -- writing ---------------------------------------------------------------------------------

    async def reconcile(self, node: str) -> Result:
        """Store the record of one node if it changed."""
        if not self.ready():
            return NOT_YET
        live = self._nodes.get(node)
        if live is None:
            self._forget(node)
            return DONE
        await self._ask(node)
        stored, spec = self._records.get(node), self.spec(node)
        if spec != self._stored(node):
            self._fence.check()
            written = await self._write(live, stored, spec)
            await self._records.wait_for(node, written.metadata.resource_version)
        if self._ahead.get(node) is spec:
            del self._ahead[node]
        return DONE

    async def _ask(self, node: str) -> None:
        for rule, at, ask in self._asks.pop(node, []):
            answer = await self._leave.ask(ask)
            text = _sentence(answer)
            self._take(node, memory.with_answer(self.spec(node), rule, at, text))

    async def _write(
        self, live: Node, stored: NodeRecord | None, spec: NodeRecordSpec
    ) -> NodeRecord:
        """Write the record. Raises Conflict if somebody wrote first: the next reconcile uses what
        they wrote.
        """
        owner = {
            "apiVersion": "v1",
            "kind": "Node",
            "name": live.metadata.name,
            "uid": live.metadata.uid,
        }
        metadata: dict[str, Any] = {"name": live.metadata.name, "ownerReferences": [owner]}
        body = {
            "apiVersion": API_VERSION,
            "kind": "NodeRecord",
            "metadata": metadata,
            "spec": spec.to_dict(),
        }
        if stored is None:
            return await self._kube.create(paths.custom(PLURAL), body, decode=self._records.read)
        metadata["resourceVersion"] = stored.metadata.resource_version
        path = paths.custom(PLURAL, live.metadata.name)
        return await self._kube.replace(path, body, decode=self._records.read)

    # -- inside ----------------------------------------------------------------------------------

    def _offer(self, job: Job) -> None:
        node = job.spec.node_name
        self._closed.setdefault(node, {})[job.name] = job
        self.changed(node)

    def _stored(self, node: str) -> NodeRecordSpec:
        stored = self._records.get(node)
        return stored.spec if stored is not None else NodeRecordSpec()

    def _with(self, spec: NodeRecordSpec, job: Job) -> NodeRecordSpec:
        if job.spec.node_uid != spec.node_uid:
            return spec
        if job.spec.mode not in ACTING:
            return memory.with_old_dry_run(spec, job)
        return memory.with_job(spec, job, self._until(job))

    def _until(self, job: Job) -> datetime | None:
        """Return the timestamp of the youngest Event that the job was made for; while Events are
        not listed, the end of the job, so that all older Events count.
        """
        closed = job.status.timeline.closed
        if all(events.synced.is_set() for events in self._events):
            return self._events_until(job.spec.node_name, job.spec.when, closed)
        return closed

    def _has(self, spec: NodeRecordSpec, job: Job) -> bool:
        return spec.node_uid == job.spec.node_uid and self._with(spec, job) is spec

    def _take(self, node: str, spec: NodeRecordSpec) -> None:
        if spec != self._stored(node):
            self._ahead[node] = spec
            self._index(node, spec)
            self.changed(node)

    def _index(self, node: str, spec: NodeRecordSpec) -> None:
        for rule in self.evidence.store(node, spec.dry_runs):
            self.evidence_changed(rule)

    def _forget(self, node: str) -> None:
        self._ahead.pop(node, None)
        self._index(node, NodeRecordSpec())
        self._closed.pop(node, None)
        self._asks.pop(node, None)
        self._pasts.pop(node, None)
        self._events_at.pop(node, None)


def _sentence(answer: Any) -> str:
    """Return Kube Defender's answer as a sentence."""
    if isinstance(answer, str):
        return f"Kube Defender could not be asked: {answer}"
    if answer.allowed:
        return GRANTED_VERDICT
    return f"Kube Defender would have refused ({answer.reason}): {answer.message}"
