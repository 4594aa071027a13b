"""Adapters from the job controller's ports to a real cluster and Kube Defender: no decisions."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from defender.client import DefenderUnreachable, Permits
from kubenode.api.v1alpha1 import Ask, RemedyOperationJob, Verdict
from kubenode.runtime.recorder import EventRecorder
from remedy.job.clockterm import ClockTerm
from remedy.job.continuity import Hearing
from remedy.job.events import JobEvent
from remedy.job.migration.access import PodAccess
from remedy.job.model import (
    FaultAssessment,
    Job,
    NodeObservation,
    Pods,
    Requested,
)
from remedy.job.nodes import NodeAccess
from remedy.job.store import JobStore
from remedy.noderecord.store import NodeRecords
from remedy.plannedevents.access import EventAccess
from remedy.plannedevents.observation import EventObservation
from remedy.power.access import PowerAccess
from remedy.power.observation import PowerObservation
from remedy.remedier.facts import FactStore
from remedy.remedier.judge import Judge
from remedy.remedier.stronger import Stronger
from rules.sources import HOST_EVENTS


@dataclass(frozen=True, slots=True)
class ClusterWorld:
    """Reads for the job controller."""

    facts: FactStore
    hearing: Hearing
    nodes: NodeAccess
    pod_access: PodAccess
    judge: Judge
    permits: Permits
    power_access: PowerAccess
    superseding: Stronger
    store: JobStore
    event_access: EventAccess
    term: ClockTerm
    records: NodeRecords
    freeze: Callable[[], str]
    """Returns why a restore of etcd stops acts, or may stop them; "" if none does."""
    unverified: Callable[[], str]
    """Returns why a restore of etcd is possible that was not checked yet; "" if none is."""

    def fresh(self, job: Job) -> bool:
        """Report whether the caches that the job needs are current. Only a job for HostEvents needs
        HostEvents; no job needs Events. After a lost connection the API server may have been
        restored from a backup, so caches count as stale until that is checked.
        """
        if self.unverified():
            return False
        host_events = not job.spec.host_events or HOST_EVENTS not in self.facts.stale()
        return self.facts.fresh() and self.nodes.known() and host_events

    def hearing_since(self) -> datetime | None:
        return self.hearing.since()

    def clock_since(self) -> datetime:
        return self.term.since()

    async def node(self, job: Job, *, live: bool) -> NodeObservation | None:
        return await self.nodes.read(job, live=live)

    async def fault(self, job: Job) -> FaultAssessment:
        return await self.judge.fault(job)

    async def check(self, permit: str, seconds: float) -> Verdict | None:
        try:
            return await self.permits.check(permit, seconds)
        except DefenderUnreachable:
            return None

    async def pods(self, job: Job) -> Pods:
        return await self.pod_access.plan_drain(job)

    def stronger(self, job: Job) -> str:
        return self.superseding.find_rule(job.name)

    def successor(self, job: Job) -> Job | None:
        return self.store.successor(job)

    async def unavailable(self, job: Job, now: datetime) -> timedelta:
        return await self.pod_access.unavailable(job, now)

    async def power(self, job: Job, node: NodeObservation | None) -> PowerObservation:
        return await self.power_access.power(job, node)

    async def planned(self, job: Job, node: NodeObservation | None) -> tuple[EventObservation, ...]:
        return await self.event_access.planned(job, node)

    def booted_at(self, job: Job) -> datetime | None:
        """Return the later of the boot time by the Node, as rules use it, and the one
        by the agent.
        """
        node = job.spec.node_name
        known = (self.facts.booted_at(node), self.facts.boot(node, job.spec.agent)[1])
        return max((at for at in known if at is not None), default=None)

    def recorded(self, job: Job) -> bool:
        return self.records.recorded(job)

    def outnumbered(self, job: Job) -> bool:
        return self.store.outnumbered(job)

    def restored(self) -> bool:
        return bool(self.freeze())


@dataclass(frozen=True, slots=True)
class ClusterEffects:
    """Acts for the job controller."""

    store: JobStore
    nodes: NodeAccess

    async def set_finalizer(self, job: Job, on: bool) -> Job:
        return await self.store.set_finalizer(job, on)

    async def note_request(self, job: Job, request: Requested) -> Job:
        return await self.store.note_request(job, request)

    async def delete(self, job: Job) -> None:
        await self.store.delete(job)

    async def cordon(self, job: Job) -> None:
        await self.nodes.cordon(job)

    async def uncordon(self, job: Job) -> None:
        await self.nodes.uncordon(job)

    async def adopt_cordon(self, job: Job) -> None:
        await self.nodes.adopt_cordon(job)

    async def protect(self, job: Job) -> None:
        await self.nodes.protect(job)

    async def unprotect(self, job: Job) -> None:
        await self.nodes.unprotect(job)


@dataclass(frozen=True, slots=True)
class DefenderLeave:
    """Client of Kube Defender; without an answer it returns the reason as text, which counts as a
    refusal.
    """

    permits: Permits

    async def ask(self, ask: Ask) -> Verdict | str:
        try:
            return await self.permits.ask(ask)
        except DefenderUnreachable as error:
            return str(error)

    async def renew(self, permit: str, seconds: float) -> Verdict | str:
        try:
            return await self.permits.renew(permit, seconds)
        except DefenderUnreachable as error:
            return str(error)

    async def release(self, permit: str) -> str:
        try:
            await self.permits.release(permit)
        except DefenderUnreachable as error:
            return str(error)
        return ""


@dataclass(frozen=True, slots=True)
class JobEvents:
    """Records Events about a job."""

    recorder: EventRecorder

    async def emit(self, job: Job, event: JobEvent) -> None:
        about = {
            "kind": "RemedyOperationJob",
            "api_version": RemedyOperationJob.model_fields["api_version"].default,
            "name": job.name,
            "uid": job.uid,
        }
        await self.recorder.emit(about, event.type, event.reason, event.message)
