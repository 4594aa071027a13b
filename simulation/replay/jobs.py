"""Jobs of a simulated fleet: the production job controller over ports that live in memory."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from heapq import heappop, heappush

from prometheus_client import CollectorRegistry

from kubenode.api.v1alpha1 import NodeRemedier, RemedyOperationJob, Rung, Verdict
from kubenode.api.v1alpha1.remedyoperationjob import (
    AgentAnswers,
    AgentRequest,
    ApprovalDecision,
    RequestState,
)
from kubenode.runtime.fence import AlwaysLeader
from remedy.handover.none import NobodyOutside
from remedy.job.controller import JobController
from remedy.job.events import JobEvent
from remedy.job.marks import added, removed
from remedy.job.metrics import JobMetrics
from remedy.job.model import (
    CORDONED_BY,
    CloseReason,
    FaultAssessment,
    Job,
    JobAct,
    JobActResult,
    JobObservation,
    NodeSeen,
    Pods,
    Requested,
)
from remedy.job.nodes import same, seen
from remedy.plannedevents.observation import EventSeen
from remedy.power.none import NoPower
from remedy.remedier.judge import Judge
from remedy.remedier.past import Past
from remedy.remedier.stronger import Stronger
from rules.history import DAWN
from rules.truth import Truth
from simulation.replay import hosts
from simulation.replay.budget import Budget
from simulation.replay.clock import SetClock, finished
from simulation.replay.evictions import Leaving
from simulation.replay.fleet import Fleet
from simulation.replay.job_record import told
from simulation.replay.noderecords import SimulatedRecords
from simulation.replay.records import JobRecord

Later = Callable[[datetime, Callable[[], None]], None]
Moved = Callable[[str], None]


@dataclass(slots=True)
class Kept:
    """A job. `played` is its ladder as it is run; `job` holds that one, `obj` the rule's own.

    asked     requests to hosts whose answers are on their way or given
    healed    an act of this job ended its fault
    replaced  the node is another one by our own act
    leaving   its pods
    """

    obj: RemedyOperationJob
    job: Job
    record: JobRecord
    wake: datetime | None = None
    past: Past | None = None
    asked: set[str] = field(default_factory=set)
    healed: bool = False
    replaced: bool = False
    leaving: Leaving = field(default_factory=Leaving)


class Jobs(NobodyOutside, NoPower):
    """later    does something at a time to come
    moved    hears the node of a job that opened, moved or went
    heals    whether a step of a rung ends the fault
    cure     ends what a rule reads of a node as evidence
    planned  the HostEvents that a job was made for
    booted_at  when a node last booted, as the rules know
    records  what is remembered of closed jobs
    fails    names of steps that fail
    """

    def __init__(
        self,
        clock: SetClock,
        fleet: Fleet,
        budget: Budget,
        judge: Judge,
        later: Later,
        moved: Moved,
        heals: Callable[[JobRecord, Rung], bool],
        cure: Callable[[str, NodeRemedier], None],
        planned: Callable[[Job], tuple[EventSeen, ...]],
        booted_at: Callable[[str], datetime | None],
        records: SimulatedRecords,
        fails: Collection[str] = (),
    ) -> None:
        self._clock, self._fleet, self._budget, self._judge = clock, fleet, budget, judge
        self._later, self._moved, self._heals, self._cure = later, moved, heals, cure
        self._fails, self.events_of, self._records = frozenset(fails), planned, records
        self.booted_at = booted_at
        self._kept: dict[str, Kept] = {}
        self._of_node: dict[str, list[Kept]] = {}
        self._wakes: list[tuple[datetime, str]] = []
        self._made = 0
        self.stronger = Stronger()
        self.records: list[JobRecord] = []
        """Of all jobs that were ever made, in that order."""
        reads = _Reads(self, budget)
        self._controller = JobController(
            jobs=self,
            world=reads,
            effects=self,
            leave=budget,
            recorder=self,
            metrics=JobMetrics(CollectorRegistry()),
            clock=clock,
            fence=AlwaysLeader(),
        )

    # -- for the world ----------------------------------------------------------------------------

    def make(self, obj: RemedyOperationJob, record: JobRecord) -> None:
        self._made += 1
        obj.metadata.uid = f"job-uid-{self._made}"
        obj.metadata.creation_timestamp = self._clock.now()
        obj.metadata.resource_version = "1"
        job = Job.of(obj)
        ladder = hosts.played(obj.spec.ladder)
        job = replace(job, spec=job.spec.model_copy(update={"ladder": ladder}))
        kept = self._kept[job.name] = Kept(obj, job, record)
        self._wake(kept, self._clock.now())
        self._budget.job_changed(job.name, obj)
        self._of_node.setdefault(record.node, []).append(kept)
        self.records.append(record)
        self._moved(record.node)
        self._wake_predecessor(kept)

    def _wake_predecessor(self, kept: Kept) -> None:
        before = self._kept.get(kept.job.spec.supersedes)
        if before is not None:
            self._wake(before, self._clock.now())

    def has(self, name: str) -> bool:
        return name in self._kept

    def open(self, node: str) -> Sequence[Past]:
        """The jobs of a node that are open."""
        open_ = (kept for kept in self._of_node.get(node, ()) if not kept.job.phase.closed)
        return [_past(kept) for kept in open_]

    def wake_node(self, node: str) -> None:
        for kept in self._of_node.get(node, ()):
            self._wake(kept, self._clock.now())

    def due(self, now: datetime) -> list[str]:
        """Names of jobs to be looked at now, the oldest first; each is named once."""
        found: dict[str, Kept] = {}
        while self._wakes and self._wakes[0][0] <= now:
            at, name = heappop(self._wakes)
            kept = self._kept.get(name)
            if kept is not None and kept.wake == at:
                kept.wake, found[name] = None, kept
        return sorted(found, key=lambda name: (found[name].job.created, name))

    def next_wake(self) -> datetime | None:
        return self._wakes[0][0] if self._wakes else None

    def _wake(self, kept: Kept, at: datetime) -> None:
        if kept.wake is None or at < kept.wake:
            kept.wake = at
            heappush(self._wakes, (at, kept.job.name))

    def work(self, name: str) -> None:
        """One run of the job controller."""
        kept = self._kept.get(name)
        if kept is None:
            return
        result = finished(self._controller.reconcile(name))
        if name not in self._kept:
            return
        if result.requeue_after is not None:
            self._wake(kept, self._clock.now() + result.requeue_after)
        self._play(kept)

    def person(self, node: str, word: str) -> None:
        """A person's word on every open job of the node."""
        for kept in self._of_node.get(node, ()):
            if kept.job.phase.closed:
                continue
            spec = kept.job.spec
            if word == "cancel":
                spec = spec.model_copy(update={"cancel": True})
            else:
                decision = "Approve" if word == "approve" else "Deny"
                said = ApprovalDecision(decision=decision, by="a person", at=self._clock.now())
                spec = spec.model_copy(update={"approvals": [*spec.approvals, said]})
            kept.job = replace(kept.job, spec=spec)
            self._wake(kept, self._clock.now())

    # -- hosts and clouds -------------------------------------------------------------------------

    def _play(self, kept: Kept) -> None:
        """What follows in the world from what the job has just asked for."""
        job = kept.job
        record = job.record
        if not job.in_flight or record is None or record.request_id in kept.asked:
            return
        step = kept.obj.spec.ladder[record.rung].steps[record.index]
        kept.asked.add(record.request_id)
        request, at = record.request_id, self._clock.now() + hosts.takes(step)
        self._later(at, lambda: self._answer(kept, request))

    def _answer(self, kept: Kept, request: str) -> None:
        job = kept.job
        record = job.record
        if record is None or record.request_id != request or not job.in_flight:
            return
        now = self._clock.now()
        rung = kept.obj.spec.ladder[record.rung]
        step = rung.steps[record.index]
        failed = step.name in self._fails
        state = RequestState.FAILED if failed else RequestState.DONE
        given = job.status.agent.requests if job.status.agent is not None else {}
        answer = AgentRequest(state=state, started_at=record.asked_at, finished_at=now)
        answers = AgentAnswers(requests={**given, request: answer})
        kept.job = job.having(agent=answers)
        self._wake(kept, now)
        if failed:
            return
        node = job.spec.node_name
        if step.name in hosts.BOOTS and node in self._fleet.nodes:
            self._fleet.boot(node)
        if step.name == "replace":
            kept.replaced = True
            self._later(now, lambda: self._fleet.renew(node, now))
        if hosts.heals(step) and self._heals(kept.record, rung):
            self._later(now + hosts.HEALS_AFTER, lambda: self._healed(kept))

    def _healed(self, kept: Kept) -> None:
        kept.healed = True
        self._cure(kept.record.node, kept.record.rule)
        self._wake(kept, self._clock.now())

    # -- ports of the job controller: its store ---------------------------------------------------

    def get(self, key: str) -> Job | None:
        kept = self._kept.get(key)
        return kept.job if kept is not None else None

    async def save(self, before: Job, after: Job) -> Job:
        kept = self._kept[before.name]
        kept.job, kept.past = after, None
        kept.obj = kept.obj.model_copy(update={"status": after.status})
        told(kept.record, before, after, self._clock.now())
        if after.phase.closed and not before.phase.closed:
            self._records.close(after)
        old, new = before.status, after.status
        if (old.phase, old.rung, len(old.steps)) != (new.phase, new.rung, len(new.steps)):
            self._budget.job_changed(after.name, kept.obj)
        moved = (old.phase, old.evidence_false_since) != (new.phase, new.evidence_false_since)
        if moved or after.close_reason is CloseReason.SUPERSEDED:
            self._moved(kept.record.node)
        self._wake_predecessor(kept)
        return after

    async def settled(self, job: Job) -> None:
        pass

    async def emit(self, job: Job, event: JobEvent) -> None:
        pass

    # -- its effects ------------------------------------------------------------------------------

    async def set_finalizer(self, job: Job, on: bool) -> Job:
        kept = self._kept[job.name]
        kept.job = replace(kept.job, finalizer=on)
        return kept.job

    async def note_request(self, job: Job, request: Requested) -> Job:
        kept = self._kept[job.name]
        kept.job = replace(kept.job, requested=request)
        return kept.job

    async def delete(self, job: Job) -> None:
        kept = self._kept.pop(job.name)
        self._budget.job_changed(job.name, None)
        self._of_node[kept.record.node].remove(kept)
        self._moved(kept.record.node)

    async def cordon(self, job: Job) -> None:
        name = job.spec.node_name
        node = self._fleet.get(name)
        if node is not None and not node.spec.unschedulable:
            self._fleet.annotate(name, {CORDONED_BY: job.mark})
            self._fleet.cordon(name, True)

    async def uncordon(self, job: Job) -> None:
        name = job.spec.node_name
        node = self._fleet.get(name)
        if node is not None and seen(node).cordoned_by == job.mark:
            self._fleet.annotate(name, {CORDONED_BY: None})
            self._fleet.cordon(name, False)
            self._kept[job.name].record.uncordoned = self._clock.now()

    async def take_over(self, job: Job) -> None:
        name = job.spec.node_name
        node = self._fleet.get(name)
        if node is not None and seen(node).cordoned_by == job.spec.supersedes:
            self._fleet.annotate(name, {CORDONED_BY: job.mark})

    async def evict(self, job: Job, pods: tuple[str, ...]) -> JobActResult:
        kept = self._kept[job.name]
        reporters = self._fleet.reporters.get(job.spec.node_name)
        answer = reporters.evictions if reporters is not None else None
        heard = kept.leaving.evict(pods, answer, self._clock.now())
        self._wake_when_left(kept)
        return heard

    async def move(self, job: Job, what: JobAct, seen: JobObservation) -> JobActResult:
        """Simulated pods leave by eviction, and where that is allowed by deletion."""
        if what is not JobAct.DELETE_PODS:
            return JobActResult(what)
        kept = self._kept[job.name]
        left = seen.pods.left if seen.pods is not None else 0
        heard = kept.leaving.delete(left, self._clock.now())
        kept.record.deleted = True
        self._wake_when_left(kept)
        return heard

    def _wake_when_left(self, kept: Kept) -> None:
        if kept.leaving.ends:
            self._later(kept.leaving.ends[-1], lambda: self.wake_node(kept.record.node))

    async def protect(self, job: Job) -> None:
        if (node := self._fleet.get(job.spec.node_name)) is not None:
            self._fleet.annotate(node.metadata.name, added(node.metadata.annotations, job.mark))

    async def unprotect(self, job: Job) -> None:
        if (node := self._fleet.get(job.spec.node_name)) is not None:
            self._fleet.annotate(node.metadata.name, removed(node.metadata.annotations, job.mark))

    async def notify(self, job: Job) -> str:
        return ""

    async def label(self, job: Job) -> JobActResult:
        step = job.step.label if job.step is not None else None
        if step is not None:
            self._fleet.label(job.spec.node_name, {step.key: step.value})
        return JobActResult(JobAct.LABEL)

    async def annotate(self, job: Job) -> JobActResult:
        step = job.step.annotate if job.step is not None else None
        if step is not None:
            self._fleet.annotate(job.spec.node_name, {step.key: step.value})
        return JobActResult(JobAct.ANNOTATE)

    # -- what it reads ----------------------------------------------------------------------------

    def seen(self, job: Job) -> NodeSeen | None:
        node = self._fleet.get(job.spec.node_name)
        if self._kept[job.name].replaced:
            return NodeSeen(unschedulable=True)  # nothing of ours is on the new one
        return seen(node) if node is not None and same(node, job) else None

    def successor(self, job: Job) -> Job | None:
        on_node = self._of_node.get(job.spec.node_name, ())
        return next((k.job for k in on_node if k.job.spec.supersedes == job.name), None)

    async def fault(self, job: Job) -> FaultAssessment:
        kept = self._kept[job.name]
        if kept.replaced:
            return FaultAssessment(Truth.FALSE, Truth.FALSE, agreed=True, gone=Truth.TRUE)
        fault = await self._judge.fault(job)
        checked = kept.obj.spec.ladder[job.status.rung].verify.checks
        if checked and kept.healed:
            return replace(fault, gone=Truth.TRUE)
        return fault

    def pods_left(self, job: Job) -> Pods:
        """None of a Node that is gone: its pods went with it."""
        reporters = self._fleet.reporters.get(job.spec.node_name)
        count = reporters.pods if reporters is not None else 0
        return self._kept[job.name].leaving.seen(count, self._clock.now())


def _past(kept: Kept) -> Past:
    if kept.past is None:
        kept.past = Past.of(kept.obj)
    return kept.past


class _Reads(NobodyOutside, NoPower):
    """The controller's World under its protocol's names."""

    def __init__(self, jobs: Jobs, budget: Budget) -> None:
        self._jobs, self._budget = jobs, budget
        self.fault, self.successor = jobs.fault, jobs.successor

    def stronger(self, job: Job) -> str:
        return self._jobs.stronger.over(job.name)

    async def planned(self, job: Job, node: NodeSeen | None) -> tuple[EventSeen, ...]:
        return self._jobs.events_of(job)

    def fresh(self, job: Job) -> bool:
        return True

    def hearing_since(self) -> datetime | None:
        return DAWN

    def clock_since(self) -> datetime:
        return DAWN

    def booted_at(self, job: Job) -> datetime | None:
        return self._jobs.booted_at(job.spec.node_name)

    def recorded(self, job: Job) -> bool:
        return True

    def restored(self) -> bool:
        return False

    def outnumbered(self, job: Job) -> bool:
        return False

    async def node(self, job: Job, *, live: bool) -> NodeSeen | None:
        return self._jobs.seen(job)

    async def check(self, permit: str, seconds: float) -> Verdict | None:
        return self._budget.check(permit, seconds)

    async def pods(self, job: Job) -> Pods:
        return self._jobs.pods_left(job)

    async def unavailable(self, job: Job, now: datetime) -> timedelta:
        return timedelta(0)
