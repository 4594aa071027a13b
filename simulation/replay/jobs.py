"""Jobs of a simulated fleet: the production job controller over ports in memory."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from heapq import heappop, heappush

from prometheus_client import CollectorRegistry

from kubenode.api.cordon import CORDONED_BY
from kubenode.api.v1alpha1 import Disruption, NodeRemedier, RemedyOperationJob, Rung, Verdict
from kubenode.api.v1alpha1.leaves import EventLeaf
from kubenode.api.v1alpha1.remedyoperationjob import (
    AgentAnswers,
    AgentRequest,
    ApprovalDecision,
    RequestState,
    StepState,
)
from kubenode.runtime.fence import AlwaysLeader
from remedy.job.controller import JobController
from remedy.job.events import JobEvent
from remedy.job.marks import added, removed
from remedy.job.metrics import JobMetrics
from remedy.job.migration.acts import PodAct
from remedy.job.model import (
    CloseReason,
    FaultAssessment,
    Job,
    JobActResult,
    JobObservation,
    NodeObservation,
    Pods,
    Requested,
    StepAct,
)
from remedy.job.nodes import observe_node, same
from remedy.job.records import FIRST_CHECK
from remedy.job.stepaccess import StepAccess
from remedy.job.steps.node_keys import NodeKeyAct, NodeKeyActor
from remedy.job.steps.notify import NotifyAct
from remedy.plannedevents.observation import EventObservation
from remedy.power.observation import PowerObservation, RequestOutcome
from remedy.remedier.judge import Judge
from remedy.remedier.past import Past
from remedy.remedier.stronger import Stronger
from rules.history import DAWN
from rules.truth import Truth
from simulation.replay import hosts
from simulation.replay.budget import ReplayPermitClient
from simulation.replay.clock import SetClock, finished
from simulation.replay.evictions import Leaving
from simulation.replay.fleet import Fleet
from simulation.replay.job_record import update_record
from simulation.replay.noderecords import SimulatedRecords
from simulation.replay.notifications import phase_notifications, step_notification
from simulation.replay.records import JobRecord

Later = Callable[[datetime, Callable[[], None]], None]
Moved = Callable[[str], None]
Heals = Callable[[JobRecord, Rung], bool]
"""Reports whether a repair of this rung ends the fault."""
STAYS = "no repair has ended the fault: see `outcome`"
"""Output of a check that fails."""


@dataclass(slots=True)
class ReplayedJob:
    """A job and its state in the simulation.

    obj: the job as stored, with the ladder of the rule.
    job: the same job with the ladder that is run here (`hosts.played`).
    wake: when the job is reconciled next; None for no time.
    past: cached summary of the job; None if it must be computed again.
    requested: IDs of requests to hosts that are in progress or answered.
    healed: whether an act of this job has ended its fault.
    replaced: whether an act of this job has replaced the node.
    leaving: the pods of the node.
    """

    obj: RemedyOperationJob
    job: Job
    record: JobRecord
    wake: datetime | None = None
    past: Past | None = None
    requested: set[str] = field(default_factory=set)
    healed: bool = False
    replaced: bool = False
    leaving: Leaving = field(default_factory=Leaving)


class Jobs:
    """The jobs, and the ports that the job controller reads and writes.

    later: schedules a call at a later time.
    moved: called with the node of a job that was created, changed its phase or was deleted.
    heals: whether a step of a rung ends the fault. None: only what is fed in ends a fault, and
        checks are not simulated.
    cure: ends the evidence of a rule for a node.
    planned: returns the HostEvents that a job was made for.
    booted_at: returns the last boot of a node, as rules read it.
    records: what KubeNode remembers of closed jobs.
    fails: names of steps that fail.
    """

    def __init__(
        self,
        clock: SetClock,
        fleet: Fleet,
        budget: ReplayPermitClient,
        judge: Judge,
        later: Later,
        moved: Moved,
        heals: Heals | None,
        cure: Callable[[str, NodeRemedier], None],
        planned: Callable[[Job], tuple[EventObservation, ...]],
        booted_at: Callable[[str], datetime | None],
        records: SimulatedRecords,
        fails: Collection[str] = (),
    ) -> None:
        self._clock, self._fleet, self._budget, self._judge = clock, fleet, budget, judge
        self._later, self._moved, self._heals, self._cure = later, moved, heals, cure
        self._fails, self.events_of, self._records = frozenset(fails), planned, records
        self.booted_at = booted_at
        self._entries: dict[str, ReplayedJob] = {}
        self._of_node: dict[str, list[ReplayedJob]] = {}
        self._wakes: list[tuple[datetime, str]] = []
        self._made = 0
        self.stronger = Stronger()
        self.records: list[JobRecord] = []
        """Records of all jobs, in the order in which they were made."""
        reads = _Reads(self, budget)
        self._controller = JobController(
            jobs=self,
            world=reads,
            effects=self,
            steps=StepAccess(
                actors={NotifyAct: self, PodAct: self, NodeKeyAct: NodeKeyActor(self, allow_key)}
            ),
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
        job = hosts.play_ladder(Job.of(obj), obj.spec.ladder, checks=self._heals is not None)
        entry = self._entries[job.name] = ReplayedJob(obj, job, record)
        self._wake(entry, self._clock.now())
        self._budget.job_changed(job.name, obj)
        self._of_node.setdefault(record.node, []).append(entry)
        self.records.append(record)
        self._moved(record.node)
        self._wake_predecessor(entry)

    def _wake_predecessor(self, entry: ReplayedJob) -> None:
        before = self._entries.get(entry.job.spec.supersedes)
        if before is not None:
            self._wake(before, self._clock.now())

    def has(self, name: str) -> bool:
        return name in self._entries

    def nodes_of(self, rule: str) -> set[str]:
        """Return the nodes that a rule made jobs for."""
        return {record.node for record in self.records if record.remedier == rule}

    def open(self, node: str) -> Sequence[Past]:
        """Return the open jobs of a node."""
        open_ = (entry for entry in self._of_node.get(node, ()) if not entry.job.phase.closed)
        return [_past(entry) for entry in open_]

    def wake_node(self, node: str) -> None:
        for entry in self._of_node.get(node, ()):
            self._wake(entry, self._clock.now())

    def due(self, now: datetime) -> list[str]:
        """Return the names of jobs to reconcile now, each once, the oldest job first."""
        due_by_name: dict[str, ReplayedJob] = {}
        while self._wakes and self._wakes[0][0] <= now:
            at, name = heappop(self._wakes)
            entry = self._entries.get(name)
            if entry is not None and entry.wake == at:
                entry.wake, due_by_name[name] = None, entry
        return sorted(due_by_name, key=lambda name: (due_by_name[name].job.created, name))

    def next_wake(self) -> datetime | None:
        return self._wakes[0][0] if self._wakes else None

    def _wake(self, entry: ReplayedJob, at: datetime) -> None:
        if entry.wake is None or at < entry.wake:
            entry.wake = at
            heappush(self._wakes, (at, entry.job.name))

    def work(self, name: str) -> None:
        """Reconcile one job with the production controller."""
        entry = self._entries.get(name)
        if entry is None:
            return
        result = finished(self._controller.reconcile(name))
        if name not in self._entries:
            return
        if result.requeue_after is not None:
            self._wake(entry, self._clock.now() + result.requeue_after)
        self._play(entry)
        self._play_checks(entry)

    def person(self, node: str, word: str) -> None:
        """Apply a person's decision to every open job of the node.

        word: cancel, approve or deny.
        """
        for entry in self._of_node.get(node, ()):
            if entry.job.phase.closed:
                continue
            spec = entry.job.spec
            if word == "cancel":
                spec = spec.model_copy(update={"cancel": True})
            else:
                decision = "Approve" if word == "approve" else "Deny"
                approval = ApprovalDecision(decision=decision, by="a person", at=self._clock.now())
                spec = spec.model_copy(update={"approvals": [*spec.approvals, approval]})
            entry.job = replace(entry.job, spec=spec)
            self._wake(entry, self._clock.now())

    # -- hosts and clouds -------------------------------------------------------------------------

    def _play(self, entry: ReplayedJob) -> None:
        """Schedule the answer to a request that the job has just sent."""
        job = entry.job
        record = job.record
        if not job.in_flight or record is None or record.request_id in entry.requested:
            return
        step = entry.obj.spec.ladder[record.rung].steps[record.index]
        entry.requested.add(record.request_id)
        request, at = record.request_id, self._clock.now() + hosts.takes(step)
        self._later(at, lambda: self._answer(entry, request))

    def _answer(self, entry: ReplayedJob, request: str) -> None:
        job = entry.job
        record = job.record
        if record is None or record.request_id != request or not job.in_flight:
            return
        now = self._clock.now()
        rung = entry.obj.spec.ladder[record.rung]
        step = rung.steps[record.index]
        failed = step.name in self._fails
        state = RequestState.FAILED if failed else RequestState.DONE
        answer = AgentRequest(state=state, started_at=record.asked_at, finished_at=now)
        self._write_answer(entry, request, answer)
        if failed:
            return
        node = job.spec.node_name
        if step.name in hosts.BOOTS and node in self._fleet.nodes:
            self._fleet.boot(node)
        if step.name == "replace":
            entry.replaced = True  # the new node is proof enough
            entry.job = hosts.play_ladder(entry.job, entry.obj.spec.ladder, checks=False)
            self._later(now, lambda: self._fleet.renew(node, now))
        helps = self._heals is not None and self._heals(entry.record, rung)
        if hosts.heals(step) and helps:
            self._later(now + hosts.HEALS_AFTER, lambda: self._healed(entry))

    def _write_answer(self, entry: ReplayedJob, request: str, answer: AgentRequest) -> None:
        agent = entry.job.status.agent
        answers = {**(agent.requests if agent is not None else {}), request: answer}
        entry.job = entry.job.having(agent=AgentAnswers(requests=answers))
        self._wake(entry, self._clock.now())

    def _play_checks(self, entry: ReplayedJob) -> None:
        """Schedule the answers to checks that the job has just requested."""
        for record in entry.job.status.steps:
            pending = record.index >= FIRST_CHECK and record.state is StepState.RUNNING
            if not pending or record.request_id in entry.requested:
                continue
            entry.requested.add(record.request_id)
            check = entry.obj.spec.ladder[record.rung].verify.checks[record.index - FIRST_CHECK]
            answer = partial(self._answer_check, entry, record.request_id)
            self._later(self._clock.now() + hosts.takes(check), answer)

    def _answer_check(self, entry: ReplayedJob, request: str) -> None:
        """Let the check pass if a repair of this job, or the timeline, has ended the fault."""
        passes = entry.healed or self._is_withdrawn(entry)
        answer = AgentRequest(
            state=RequestState.DONE if passes else RequestState.FAILED,
            finished_at=self._clock.now(),
            code=0 if passes else 1,
            output="" if passes else STAYS,
        )
        self._write_answer(entry, request, answer)

    def _is_withdrawn(self, entry: ReplayedJob) -> bool:
        """Report whether reporters have withdrawn the evidence.

        An Event is never withdrawn: that it leaves its window says nothing about the fault.
        """
        leaves = entry.record.rule.spec.when.leaves()
        if any(isinstance(leaf, EventLeaf) for leaf in leaves):
            return False
        return finished(self._judge.fault(entry.job)).gone is Truth.TRUE

    def _healed(self, entry: ReplayedJob) -> None:
        entry.healed = True
        self._cure(entry.record.node, entry.record.rule)
        self._wake(entry, self._clock.now())

    # -- ports of the job controller: its store ---------------------------------------------------

    def get(self, key: str) -> Job | None:
        entry = self._entries.get(key)
        return entry.job if entry is not None else None

    async def save(self, before: Job, after: Job) -> Job:
        entry = self._entries[before.name]
        entry.job, entry.past = after, None
        entry.obj = entry.obj.model_copy(update={"status": after.status})
        update_record(entry.record, before, after, self._clock.now())
        sent = phase_notifications(before, after, self._clock.now())
        entry.record.notifications += sent
        if after.phase.closed and not before.phase.closed:
            self._records.close(after)
        old, new = before.status, after.status
        if (old.phase, old.rung, len(old.steps)) != (new.phase, new.rung, len(new.steps)):
            self._budget.job_changed(after.name, entry.obj)
        moved = (old.phase, old.evidence_false_since) != (new.phase, new.evidence_false_since)
        if moved or after.close_reason is CloseReason.SUPERSEDED:
            self._moved(entry.record.node)
        self._wake_predecessor(entry)
        return after

    async def settled(self, job: Job) -> None:
        pass

    async def emit(self, job: Job, event: JobEvent) -> None:
        pass

    # -- its effects ------------------------------------------------------------------------------

    async def set_finalizer(self, job: Job, on: bool) -> Job:
        entry = self._entries[job.name]
        entry.job = replace(entry.job, finalizer=on)
        return entry.job

    async def note_request(self, job: Job, request: Requested) -> Job:
        entry = self._entries[job.name]
        entry.job = replace(entry.job, requested=request)
        return entry.job

    async def delete(self, job: Job) -> None:
        entry = self._entries.pop(job.name)
        self._budget.job_changed(job.name, None)
        self._of_node[entry.record.node].remove(entry)
        self._moved(entry.record.node)

    async def cordon(self, job: Job) -> None:
        name = job.spec.node_name
        node = self._fleet.get(name)
        if node is not None and not node.spec.unschedulable:
            self._fleet.annotate(name, {CORDONED_BY: job.mark})
            self._fleet.cordon(name, True)

    async def uncordon(self, job: Job) -> None:
        name = job.spec.node_name
        node = self._fleet.get(name)
        if node is not None and observe_node(node).cordoned_by == job.mark:
            self._fleet.annotate(name, {CORDONED_BY: None})
            self._fleet.cordon(name, False)
            self._entries[job.name].record.uncordoned = self._clock.now()

    async def adopt_cordon(self, job: Job) -> None:
        name = job.spec.node_name
        node = self._fleet.get(name)
        if node is not None and observe_node(node).cordoned_by == job.spec.supersedes:
            self._fleet.annotate(name, {CORDONED_BY: job.mark})

    def _evict(self, job: Job, pods: tuple[str, ...]) -> JobActResult:
        entry = self._entries[job.name]
        reporters = self._fleet.reporters.get(job.spec.node_name)
        answer = reporters.evictions if reporters is not None else None
        result = entry.leaving.evict(pods, answer, self._clock.now())
        self._wake_after_departure(entry)
        return result

    def _delete_pods(self, job: Job, observation: JobObservation) -> JobActResult:
        entry = self._entries[job.name]
        remaining = observation.pods.remaining if observation.pods is not None else 0
        result = entry.leaving.delete(remaining, self._clock.now())
        entry.record.deleted = True
        self._wake_after_departure(entry)
        return result

    def _wake_after_departure(self, entry: ReplayedJob) -> None:
        if entry.leaving.ends:
            self._later(entry.leaving.ends[-1], lambda: self.wake_node(entry.record.node))

    async def protect(self, job: Job) -> None:
        if (node := self._fleet.get(job.spec.node_name)) is not None:
            self._fleet.annotate(node.metadata.name, added(node.metadata.annotations, job.mark))

    async def unprotect(self, job: Job) -> None:
        if (node := self._fleet.get(job.spec.node_name)) is not None:
            self._fleet.annotate(node.metadata.name, removed(node.metadata.annotations, job.mark))

    async def act(self, job: Job, what: StepAct, observation: JobObservation) -> JobActResult:
        """Evict or delete pods, record notifications. Other acts have no effect here."""
        match what:
            case PodAct.EVICT:
                return self._evict(
                    job, observation.pods.due if observation.pods is not None else ()
                )
            case PodAct.DELETE_PODS:
                return self._delete_pods(job, observation)
            case NotifyAct.NOTIFY:
                sent = step_notification(job, self._clock.now())
                self._entries[job.name].record.notifications.append(sent)
                return JobActResult(what)
            case _:
                return JobActResult(what)

    async def set(self, job: Job, kind: str, key: str, value: str | None) -> None:
        """Set a label or annotation of the job's node, or remove it with None."""
        change = self._fleet.label if kind == "labels" else self._fleet.annotate
        change(job.spec.node_name, {key: value})

    # -- what it reads ----------------------------------------------------------------------------

    def read_node(self, job: Job) -> NodeObservation | None:
        node = self._fleet.get(job.spec.node_name)
        if self._entries[job.name].replaced:
            return NodeObservation(unschedulable=True)  # the new node has no mark of ours
        return observe_node(node) if node is not None and same(node, job) else None

    def successor(self, job: Job) -> Job | None:
        on_node = self._of_node.get(job.spec.node_name, ())
        return next((k.job for k in on_node if k.job.spec.supersedes == job.name), None)

    async def fault(self, job: Job) -> FaultAssessment:
        entry = self._entries[job.name]
        if entry.replaced:
            return FaultAssessment(Truth.FALSE, Truth.FALSE, agreed=True, gone=Truth.TRUE)
        return await self._judge.fault(job)

    def observe_pods(self, job: Job) -> Pods:
        """Return the remaining pods; none if the Node is gone, since its pods went with it."""
        reporters = self._fleet.reporters.get(job.spec.node_name)
        count = reporters.pods if reporters is not None else 0
        return self._entries[job.name].leaving.observe_pods(count, self._clock.now())


def allow_key(key: str, disruption: Disruption) -> str:
    """Refuse no key: rules were checked before the replay."""
    return ""


def _past(entry: ReplayedJob) -> Past:
    if entry.past is None:
        entry.past = Past.of(entry.obj)
    return entry.past


class _Reads:
    """Implements the World port of the job controller by delegating to Jobs."""

    def __init__(self, jobs: Jobs, budget: ReplayPermitClient) -> None:
        self._jobs, self._budget = jobs, budget
        self.fault, self.successor = jobs.fault, jobs.successor

    def stronger(self, job: Job) -> str:
        return self._jobs.stronger.find_rule(job.name)

    async def planned(self, job: Job, node: NodeObservation | None) -> tuple[EventObservation, ...]:
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

    async def node(self, job: Job, *, live: bool) -> NodeObservation | None:
        return self._jobs.read_node(job)

    async def power(self, job: Job, node: NodeObservation | None) -> PowerObservation:
        """Return a refusal, which the drain of a silent node may get: there are no machines."""
        return PowerObservation(
            outcome=RequestOutcome.REFUSED, why="no step asks for a machine here"
        )

    async def check(self, permit: str, seconds: float) -> Verdict | None:
        return self._budget.check(permit, seconds)

    async def pods(self, job: Job) -> Pods:
        return self._jobs.observe_pods(job)

    async def unavailable(self, job: Job, now: datetime) -> timedelta:
        return timedelta(0)
