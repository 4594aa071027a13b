"""A cluster of one node and one job, with levers.

It plays the API server, Kube Defender, the rule engine and the agent. Its n-th write may kill the
caller, before or after it took effect. What must never happen is asserted where it would happen.
"""

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry
from support.clock import FakeClock
from support.disruption_guard import live_permit
from support.moving_world import FakePods
from support.outside_world import FakeOutside
from support.power_world import FakeHost
from support.remedy_builders import NODE, granted, refused

from kubenode.api.cordon import CORDONED_BY
from kubenode.api.v1alpha1 import Ask, JobPhase, Reason, RemedyOperationJob, Verdict
from kubenode.runtime.audit import SILENT
from kubenode.runtime.controller.result import DONE
from kubenode.runtime.disruption.guard import DisruptionGuard
from kubenode.runtime.disruption.permits import LivePermit
from kubenode.runtime.disruption.request import ActRefused, RefusalReason
from kubenode.runtime.fence import AlwaysLeader
from kubenode.runtime.kube.errors import Conflict, ServerUnreachable
from remedy.handover.observation import HandoverObservation
from remedy.job.clockterm import ClockTerm
from remedy.job.controller import JobController, never_busy
from remedy.job.events import JobEvent
from remedy.job.marks import added, removed
from remedy.job.metrics import JobMetrics
from remedy.job.model import (
    FENCED_BY,
    FINALIZER,
    REQUESTED,
    Blocked,
    FaultAssessment,
    Job,
    JobAct,
    JobActResult,
    JobObservation,
    NodeObservation,
    Pods,
    Requested,
)
from remedy.job.store import status_patch
from remedy.plannedevents.observation import EventObservation
from remedy.power.leave import act_request, is_written, live_target, request_of, to_refused_result
from remedy.power.observation import PowerObservation, ReplacementObservation, RequestOutcome
from remedy.rollback.observation import Back, RollbackObservation
from rules.history import DAWN
from rules.truth import Truth


class Crash(Exception):
    """The process died here."""


@dataclass
class FakeWorld:
    """needs  how many restarts of the unit cure the fault"""

    obj: RemedyOperationJob
    die_at: int = 0
    applied: bool = False
    needs: int = 1
    pods: list[str] = field(default_factory=lambda: ["shop/a", "shop/b"])
    budget: int = 1000
    allowed: bool = True
    agent_works: bool = True
    boot: str = "boot-1"
    node_uid: str = "node-uid-1"
    unschedulable: bool = False
    annotations: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    refused_key: str = ""
    """Why no label may be set; empty if any may."""
    clock: FakeClock = field(default_factory=FakeClock)
    permits: dict[str, str] = field(default_factory=dict)
    restarts: list[str] = field(default_factory=list)
    evictions: list[str] = field(default_factory=list)
    terminating: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    events: list[JobEvent] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    cordons: int = 0
    deleted: bool = False
    disagree: bool = False
    is_recorded: bool = True
    is_restored: bool = False
    permit_name: str = "permit-1"
    stronger_rule: str = ""
    next_job: Job | None = None
    report_at: datetime | None = None
    heard_since: datetime | None = DAWN
    booted: datetime | None = None
    term: ClockTerm | None = None
    """None: the clock of the jobs is never set, whoever leads."""
    outside: FakeOutside = field(default_factory=FakeOutside)
    host: FakeHost = field(default_factory=FakeHost)
    hung: bool = False
    """Nothing on the host answers; the next boot cures it."""
    sick: bool = False
    """A fault that leaves the agent alive; the next boot cures it."""
    blind_to_dark: bool = False
    """The evidence says that the machine is on, so that of a dark one it is false."""
    agent_reboots: bool = True
    out_of_service: bool = False
    moving: FakePods = field(default_factory=FakePods)
    against: list[RefusalReason] = field(default_factory=list)
    """What the last look before the next acts finds, in order; then nothing."""
    unpermitted: int = 0
    """So many requests more the agent finds no valid permit for."""

    def _write(self, name: str, apply: Callable[[], None]) -> None:
        self.writes.append(name)
        dies = len(self.writes) == self.die_at
        if self.applied or not dies:
            apply()
        if dies:
            raise Crash

    # -- the object, as an API server keeps it --------------------------------------------------

    @property
    def job(self) -> Job:
        return Job.of(self.obj)

    def _change(self, patch: dict[str, Any], version: str) -> None:
        if version != self.obj.metadata.resource_version:
            raise Conflict(409, "Conflict", "somebody wrote first")
        data = merged(self.obj.to_dict(), patch)
        data["metadata"]["resourceVersion"] = str(int(version) + 1)
        self.obj = RemedyOperationJob.from_server(json.dumps(data).encode())

    def write_status(self, patch: dict[str, Any]) -> None:
        """As somebody else: the agent, a person."""
        self._change({"status": patch}, self.obj.metadata.resource_version)

    def get(self, key: str) -> Job | None:
        return None if self.deleted else self.job

    async def save(self, before: Job, after: Job) -> Job:
        patch = status_patch(before, after)
        assert "agent" not in patch
        self._write(
            f"save {after.phase}",
            lambda: self._change({"status": patch}, before.resource_version),
        )
        seen = after.having(observed_generation=before.generation)
        saved = self.job.status.to_dict()  # to the millisecond, as on the wire
        assert saved == seen.status.to_dict(), "what was saved is not what was decided"
        return self.job

    async def settled(self, job: Job) -> None:
        pass

    async def set_finalizer(self, job: Job, on: bool) -> Job:
        patch = {"metadata": {"finalizers": [FINALIZER] if on else []}}
        self._write(f"finalizer {on}", lambda: self._change(patch, job.resource_version))
        return self.job

    async def note_request(self, job: Job, request: Requested) -> Job:
        patch = {"metadata": {"annotations": {REQUESTED: str(request)}}}
        self._write(f"note {request.word}", lambda: self._change(patch, job.resource_version))
        return self.job

    async def delete(self, job: Job) -> None:
        self._write("delete", lambda: setattr(self, "deleted", True))

    # -- what is seen ----------------------------------------------------------------------------

    def fresh(self, job: Job) -> bool:
        return True

    def hearing_since(self) -> datetime | None:
        return self.heard_since

    def clock_since(self) -> datetime:
        return self.term.since() if self.term is not None else DAWN

    def booted_at(self, job: Job) -> datetime | None:
        return self.booted

    def outnumbered(self, job: Job) -> bool:
        return False

    def restored(self) -> bool:
        return self.is_restored

    def recorded(self, job: Job) -> bool:
        return self.is_recorded

    async def node(self, job: Job, *, live: bool) -> NodeObservation | None:
        if self.node_uid != job.spec.node_uid:
            return None
        mark = self.annotations.get(CORDONED_BY, "")
        return NodeObservation(
            unschedulable=self.unschedulable,
            cordoned_by=mark,
            boot_id=self.boot,
            provider_id="fake:///n1",
            out_of_service=self.out_of_service,
            fenced_by=self.annotations.get(FENCED_BY, ""),
            ready="Unknown" if self.hung else "True",
            labels=dict(self.labels),
            annotations=dict(self.annotations),
        )

    @property
    def faulty(self) -> bool:
        if self.blind_to_dark and self.host.state.dark:
            return False
        return self.hung or self.sick or len(set(self.restarts)) < self.needs

    async def fault(self, job: Job) -> FaultAssessment:
        truth = Truth.TRUE if self.faulty else Truth.FALSE
        gone = Truth.FALSE if self.faulty else Truth.TRUE
        return FaultAssessment(truth, Truth.FALSE, agreed=not self.disagree, gone=gone)

    async def check(self, permit: str, seconds: float) -> Verdict | None:
        return granted() if permit in self.permits.values() else refused(Reason.UNKNOWN)

    async def pods_left(self, job: Job) -> Pods:
        return self.moving.seen(job, self.pods, self.terminating, self.clock.now())

    def stronger(self, job: Job) -> str:
        return self.stronger_rule

    def successor(self, job: Job) -> Job | None:
        return self.next_job

    async def unavailable(self, job: Job, now: datetime) -> timedelta:
        return timedelta(seconds=42)

    # -- what is done ----------------------------------------------------------------------------

    def _may_disrupt(self, job: Job) -> None:
        assert job.uid in self.permits, "an act without a permit"
        stored = self.job
        assert stored.record is not None and stored.record.state == "Running", "no intent written"

    async def cordon(self, job: Job) -> None:
        self._may_disrupt(job)
        assert FINALIZER in self.obj.metadata.finalizers, "a cordon that nobody would undo"

        def apply() -> None:
            if not self.unschedulable:
                self.unschedulable, self.annotations[CORDONED_BY] = True, job.mark
                self.cordons += 1

        self._write("cordon", apply)

    async def uncordon(self, job: Job) -> None:
        def apply() -> None:
            assert self.annotations.pop(CORDONED_BY, None) == job.mark, "not our cordon"
            self.unschedulable = False

        self._write("uncordon", apply)

    async def adopt_cordon(self, job: Job) -> None:
        assert job.status.owned.cordon and FINALIZER in self.obj.metadata.finalizers
        assert job.spec.supersedes

        def apply() -> None:
            if self.unschedulable and self.annotations.get(CORDONED_BY) == job.spec.supersedes:
                self.annotations[CORDONED_BY] = job.mark

        self._write("take over", apply)

    async def evict(self, job: Job, pods: tuple[str, ...]) -> JobActResult:
        self._may_disrupt(job)
        assert self.unschedulable, "a drain of a node that takes new pods"
        gone, blocked = list(pods[: self.budget]), pods[self.budget :]

        def apply() -> None:
            self.evictions += gone
            self.terminating += gone

        self._write("evict", apply)
        no = Blocked(blocked[0], "pdb=shop/cart", "PDB shop/cart: no") if blocked else None
        return JobActResult(JobAct.EVICT, evicted=tuple(gone), moved="shop,u,k=v,1,1", blocked=no)

    async def notify(self, job: Job) -> str:
        record = job.record
        assert record is not None

        def apply() -> None:
            name = f"{job.uid}/{record.rung}/{record.index}/{record.attempts}"
            if name not in self.notices:  # AlreadyExists
                self.notices.append(name)

        self._write("notify", apply)
        return ""

    async def planned(self, job: Job, node: NodeObservation | None) -> tuple[EventObservation, ...]:
        return self.outside.planned

    async def handed(self, job: Job, node: NodeObservation | None) -> HandoverObservation:
        return self.outside.handed(job)

    async def rollback(self, job: Job) -> RollbackObservation:
        return RollbackObservation(Back.FAILED, why="no Machine of kubenode.io stands for the node")

    async def approve_event(self, job: Job, seen: JobObservation) -> JobActResult:
        self._may_disrupt(job)
        return self.outside.approve(job, seen, self._write)

    async def start_handover(self, job: Job, seen: JobObservation) -> JobActResult:
        self._may_disrupt(job)
        return self.outside.start_handover(job, self._write)

    async def take_back(self, job: Job) -> JobActResult:
        return self.outside.take_back(job, self._write)

    async def label(self, job: Job) -> JobActResult:
        step = job.step.label if job.step else None
        assert step is not None
        if self.refused_key:
            return JobActResult(
                JobAct.LABEL, outcome=RequestOutcome.REFUSED, error=self.refused_key
            )
        self._write("label", lambda: self.labels.update({step.key: step.value}))
        return JobActResult(JobAct.LABEL)

    async def annotate(self, job: Job) -> JobActResult:
        step = job.step.annotate if job.step else None
        assert step is not None
        self._write("annotate", lambda: self.annotations.update({step.key: step.value}))
        return JobActResult(JobAct.ANNOTATE)

    async def power(self, job: Job, node: NodeObservation | None) -> PowerObservation:
        return self.host.power(self.clock.now())

    async def replacing(self, job: Job, node: NodeObservation | None) -> ReplacementObservation:
        return self.host.replacing()

    async def roll_back(self, job: Job) -> JobActResult:
        raise AssertionError("there is nothing to take back")

    async def switch(self, job: Job, what: JobAct, node: NodeObservation | None) -> JobActResult:
        word = {JobAct.POWER_OFF: "off", JobAct.POWER_ON: "on", JobAct.RESET: "reset"}[what]
        if word == "on":
            assert not self.annotations.get(FENCED_BY), "a boot behind our own fence"
            return self._ask_host(job, what, word)
        return await self._guarded(job, what, word)

    async def replace(self, job: Job, node: NodeObservation | None) -> JobActResult:
        return await self._guarded(job, JobAct.REPLACE, "replace")

    async def _guarded(self, job: Job, what: JobAct, word: str) -> JobActResult:
        found = self.against.pop(0) if self.against else None
        node, permits = LiveNode(self, found), LivePermits(self, found)
        frozen = "etcd was restored" if found is RefusalReason.FROZEN else ""
        guard = DisruptionGuard(permits, AlwaysLeader(), self.clock, SILENT, lambda: frozen)

        async def ask() -> JobActResult:
            self._may_disrupt(job)
            return self._ask_host(job, what, word)

        try:
            return await guard.perform(
                act_request(job, what, "fake:///n1"),
                intent=partial(is_written, job, what),
                target=lambda: live_target(node, job),
                act=ask,
            )
        except ActRefused as refused:
            assert refused.reason is found, f"{refused} without a cause"
            return to_refused_result(what, refused)

    def _ask_host(self, job: Job, what: JobAct, word: str) -> JobActResult:
        request, said = request_of(job).rpartition(".")[2], [(RequestOutcome.TAKEN, "")]

        def apply() -> None:
            said[0] = self.host.ask(word, request, self.clock.now())

        self._write(word, apply)
        return JobActResult(what, outcome=said[0][0], error=said[0][1])

    async def fence(self, job: Job) -> None:
        self._may_disrupt(job)
        assert self.host.state.dark, "a fence around a machine that may run"
        assert FINALIZER in self.obj.metadata.finalizers, "a fence that nobody would take off"

        def apply() -> None:
            if not self.out_of_service:
                self.out_of_service, self.annotations[FENCED_BY] = True, job.mark

        self._write("fence", apply)

    async def unfence(self, job: Job) -> None:
        def apply() -> None:
            assert self.annotations.pop(FENCED_BY, None) == job.mark, "not our fence"
            self.out_of_service = False

        self._write("unfence", apply)

    async def move(self, job: Job, what: JobAct, seen: JobObservation) -> JobActResult:
        if what is not JobAct.UNSURGE:
            self._may_disrupt(job)
        assert FINALIZER in self.obj.metadata.finalizers
        dark = self.host.state.dark
        heard = self.moving.move(job, what, seen, dark=dark, write=self._write)
        if what is JobAct.DELETE_PODS:
            self.terminating += [p for p in heard.evicted if p not in self.terminating]
            self.pods = [p for p in self.pods if not dark or p not in heard.evicted]
        return heard

    async def protect(self, job: Job) -> None:
        assert FINALIZER in self.obj.metadata.finalizers, "marks that nobody would take off"
        marks = {k: v for k, v in added(self.annotations, job.mark).items() if v is not None}
        self._write("protect", lambda: self.annotations.update(marks))

    async def unprotect(self, job: Job) -> None:
        def apply() -> None:
            for key in removed(self.annotations, job.mark):
                self.annotations.pop(key, None)

        self._write("unprotect", apply)

    async def ask(self, ask: Ask) -> Verdict | str:
        if not self.allowed or ask.dry_run:
            return refused()

        def apply() -> None:
            self.permits.setdefault(ask.holder.uid, self.permit_name)

        self._write("ask", apply)
        return granted(class_=ask.class_).model_copy(update={"permit": self.permit_name})

    async def renew(self, permit: str, seconds: float) -> Verdict | str:
        if permit not in self.permits.values():
            return refused(Reason.UNKNOWN)
        return granted().model_copy(update={"permit": permit})

    async def release(self, permit: str) -> str:
        def apply() -> None:
            for holder in [h for h, name in self.permits.items() if name == permit]:
                del self.permits[holder]

        self._write("release", apply)
        return ""

    async def emit(self, job: Job, event: JobEvent) -> None:
        self.events.append(event)

    # -- the world goes on -----------------------------------------------------------------------

    def others(self) -> None:
        """The kubelet ends what is terminating, the agent answers what it was asked, once each; the
        host goes dark, boots, is replaced.
        """
        if self.host.passes(self.clock.now()):
            self.boots()
        if self.host.new:
            self.node_uid = "node-uid-2"
        if not (self.hung or self.moving.hang):
            self.pods = [p for p in self.pods if p not in self.terminating]
            self.terminating = []
        job = self.job
        if job.record is None or not job.awaits_agent or not self.agent_works or job.answer:
            return
        if self.hung or (job.record.expires_at or self.clock.now()) <= self.clock.now():
            return
        if self.unpermitted:
            self.unpermitted -= 1
            no = {"state": "Refused", "output": "NoPermit: there is no permit permit-1"}
            self.write_status({"agent": {"requests": {job.record.request_id: no}}})
            return
        if job.record.name == "reboot":
            self._agent_boots(job.record.request_id, job.record.boot_id)
            return
        assert job.uid in self.permits, "a host was asked without a permit"
        assert job.record.boot_id == self.boot
        assert job.record.request_id not in self.restarts, "a request twice"
        self.restarts.append(job.record.request_id)
        at = self.clock.now().isoformat()
        answer = {"state": "Done", "code": 0, "finishedAt": at, "output": "restarted"}
        self.write_status({"agent": {"requests": {job.record.request_id: answer}}})

    def _agent_boots(self, request: str, boot: str) -> None:
        """Asked of this boot and in time, the system goes down and comes back."""
        answer = {"state": "Running", "startedAt": self.clock.now().isoformat()}
        if boot != self.boot or not self.agent_reboots:
            answer = {"state": "Refused", "output": "not me"}
        else:
            self.host.ask("reset", request, self.clock.now())
        self.write_status({"agent": {"requests": {request: answer}}})

    def boots(self) -> None:
        self.boot = f"boot-{int(self.boot.removeprefix('boot-')) + 1}"
        self.hung = self.sick = False

    def controller(self, busy: Callable[[], bool] = never_busy) -> JobController:
        return JobController(
            jobs=self,
            world=Reads(self),
            effects=self,
            leave=self,
            recorder=self,
            metrics=JobMetrics(CollectorRegistry()),
            clock=self.clock,
            fence=AlwaysLeader(),
            busy=busy,
        )

    async def run(self, until: Callable[["FakeWorld"], bool], hours: float = 24) -> None:
        """One controller after the other, each until it dies, until `until` or time is up."""
        end = self.clock.now() + timedelta(hours=hours)
        controller = self.controller()
        while not until(self) and not self.deleted and self.clock.now() < end:
            try:
                result = await controller.reconcile(self.obj.metadata.name)
            except Crash:
                controller, result = self.controller(), DONE
            self.others()
            pause = result.requeue_after
            if pause is not None:
                self.clock.step(min(pause, timedelta(minutes=1)))
            else:
                self.clock.step(timedelta(seconds=1))


@dataclass
class LivePermits:
    """Permits right before an act, with `found` against it."""

    world: FakeWorld
    found: RefusalReason | None

    async def read(self, name: str) -> LivePermit | None:
        if self.found is RefusalReason.UNREADABLE:
            raise ServerUnreachable("no answer")
        holder = next((uid for uid, held in self.world.permits.items() if held == name), "")
        gone = self.found is RefusalReason.NO_PERMIT or not holder
        return None if gone else live_permit(name, NODE, holder)


@dataclass
class LiveNode:
    """The Node right before an act, with `found` against it."""

    world: FakeWorld
    found: RefusalReason | None

    async def read(self, job: Job, *, live: bool) -> NodeObservation | None:
        if self.found is RefusalReason.BOOT_CHANGED:
            self.world.boots()
        node = await self.world.node(job, live=live)
        return None if self.found is RefusalReason.TARGET_CHANGED else node


class Reads:
    """World under its protocol's names: `pods` is a list in FakeWorld."""

    def __init__(self, world: FakeWorld) -> None:
        self._world = world
        self.fresh, self.node, self.fault = world.fresh, world.node, world.fault
        self.hearing_since, self.clock_since = world.hearing_since, world.clock_since
        self.check, self.unavailable = world.check, world.unavailable
        self.power, self.replacing = world.power, world.replacing
        self.planned, self.handed = world.planned, world.handed
        self.rollback, self.recorded = world.rollback, world.recorded
        self.outnumbered, self.booted_at = world.outnumbered, world.booted_at
        self.restored = world.restored
        self.stronger, self.successor = world.stronger, world.successor

    async def pods(self, job: Job) -> Pods:
        return await self._world.pods_left(job)


def closed(world: FakeWorld) -> bool:
    """Closed and let go."""
    return world.obj.status.phase.closed and not world.obj.metadata.finalizers


def needs_human(world: FakeWorld) -> bool:
    return world.obj.status.phase is JobPhase.NEEDS_HUMAN and world.obj.status.permit is None


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = deepcopy(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result
