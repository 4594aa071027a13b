"""Reads the pods of a job's node and evicts, deletes or surges them through the API server."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from kubenode.api.duration import parse_duration
from kubenode.api.v1alpha1.steps import MigrateStep
from kubenode.runtime.clock import Clock
from kubenode.runtime.drain.evictor import FROM_CACHE, EvictionResult, PodEvictor, pod_list
from kubenode.runtime.drain.gangs import read as read_gangs
from kubenode.runtime.drain.observation import Pods
from kubenode.runtime.drain.plan import DrainState, plan
from kubenode.runtime.drain.policy import Protection
from kubenode.runtime.drain.statefulsets import StatefulSets
from kubenode.runtime.drain.volumes import LocalVolumes
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.objects import Pod
from remedy.job.migration import surge_replicas
from remedy.job.migration.absence import note, read_notes, waited
from remedy.job.migration.acts import PodAct
from remedy.job.migration.checkpoint import PACE, CheckpointSender, Nobody, ask, members
from remedy.job.migration.controllers import WorkloadControllers
from remedy.job.migration.force import deletion
from remedy.job.model import Job, JobActResult, JobObservation, StepAct


def nobody() -> int:
    return 0


class PodAccess:
    """Reads and moves pods for jobs.

    cordoning: returns how many jobs may act and have not cordoned their nodes yet
    direct: sends requests to the receivers of checkpoints
    """

    def __init__(
        self,
        kube: Kube,
        protection: Protection,
        clock: Clock,
        cordoning: Callable[[], int] = nobody,
        direct: CheckpointSender | None = None,
    ) -> None:
        self._kube, self._protection, self._clock = kube, protection, clock
        self._cordoning, self._direct = cordoning, direct or Nobody()
        self._sets, self._volumes = StatefulSets(kube), LocalVolumes(kube)
        self._leaving = PodEvictor(kube, clock, self._sets)
        self._memory = self._leaving.memory
        self._controllers = WorkloadControllers(kube)
        self._checkpoint_times: dict[tuple[str, str], datetime] = {}

    async def plan_drain(self, job: Job) -> Pods:
        """Return what to do next. Only an uncached read can show that no pod is left."""
        drain = await self._plan(job, await self._on_node(job, cached=True))
        if drain.remaining:
            return drain
        drain = await self._plan(job, await self._on_node(job, cached=False))
        if not drain.remaining:
            self._memory.forget(job.name)
        return drain

    async def _on_node(self, job: Job, *, cached: bool) -> list[Pod]:
        return await self._leaving.on_node(job.spec.node_name, cached=cached)

    async def _plan(self, job: Job, pods: list[Pod]) -> Pods:
        now, record, step = self._clock.now(), job.record, migrate_of(job)
        self._memory.listed(job.name, pods)
        controllers, protection = self._controllers, self._protection
        surges, places = await controllers.surges(job, step, pods, protection, now)
        known = DrainState(
            now=now,
            began=(record.started_at if record is not None else None) or now,
            pending=self._memory.list_pending(job.name, now),
            blocked=self._memory.blocked(job.name),
            sets=await self._sets.incomplete(pods, now),
            surges=surges,
            surging=places,
            gangs=read_gangs(record.output if record is not None else {}),
            asking=self._asking(job, now),
            local=await self._volumes.of(pods, step),
            cordoning=self._cordoning(),
            calm=self._leaving.calm,
        )
        return plan(pods, step, protection, known)

    # -- evict and delete --------------------------------------------------------------------------

    async def evict(self, job: Job, keys: Sequence[str]) -> JobActResult:
        eviction = await self._leaving.evict(job.name, keys, _grace_seconds(job))
        return _to_result(job, PodAct.EVICT, eviction)

    async def delete(self, job: Job, keys: Sequence[str], *, force: bool) -> JobActResult:
        """Delete pods without regard to budgets. `force`: without grace, for a host that is proven
        off.
        """
        grace = 0 if force else _grace_seconds(job)
        eviction = await self._leaving.delete(job.name, keys, grace)
        return _to_result(job, PodAct.DELETE_PODS, eviction)

    async def act(self, job: Job, what: StepAct, observation: JobObservation) -> JobActResult:
        match what:
            case PodAct.EVICT:
                return await self.evict(
                    job, observation.pods.due if observation.pods is not None else ()
                )
            case PodAct.DELETE_PODS:
                keys, force = deletion(observation)
                return await self.delete(job, keys, force=force)
            case PodAct.SURGE:
                return await self.surge(job, observation)
            case PodAct.UNSURGE:
                return await self.unsurge(job, observation)
            case PodAct.CHECKPOINT:
                return await self.checkpoint(job, observation)
            case _:
                raise AssertionError(f"{what} moves no pod")

    # -- surge -------------------------------------------------------------------------------------

    async def surge(self, job: Job, observation: JobObservation) -> JobActResult:
        """Raise the Deployments with a recorded surge that are not raised yet."""
        for surge in observation.pods.surges.up if observation.pods is not None else ():
            await self._controllers.replicas.raise_by(surge.key, job.name, surge.count)
        return JobActResult(PodAct.SURGE)

    async def unsurge(self, job: Job, observation: JobObservation) -> JobActResult:
        """Lower the Deployments with a surge that is over; at the end of the step or job, all of
        them.
        """
        ended = observation.pods.surges.finished if observation.pods is not None else {}
        keys = [s.key for s in surge_replicas.owned(job) if not ended or s.key in ended]
        for key in keys:
            await self._controllers.replicas.lower(key, job.name)
        return JobActResult(PodAct.UNSURGE, lowered={key: ended.get(key, "") for key in keys})

    # -- gangs -------------------------------------------------------------------------------------

    def _asking(self, job: Job, now: datetime) -> frozenset[str]:
        """Return the gangs with a receiver that may be asked now; gangs without a recorded request
        do not matter.
        """
        self._checkpoint_times = {
            k: at for k, at in self._checkpoint_times.items() if at + PACE > now
        }
        lately = {gang for name, gang in self._checkpoint_times if name == job.name}
        record = job.record
        states = read_gangs(record.output if record is not None else {})
        return frozenset(g for g, s in states.items() if not s.is_finished and g not in lately)

    async def checkpoint(self, job: Job, observation: JobObservation) -> JobActResult:
        wanted = observation.pods.checkpoint if observation.pods is not None else ()
        pods = self._memory.every(job.name)
        gangs = members(pods, migrate_of(job), self._protection)
        saved: dict[str, str] = {}
        for name in wanted:
            if name not in gangs:
                continue
            gang, mine = gangs[name]
            self._checkpoint_times[job.name, name] = self._clock.now()
            if gang.checkpoint is None:
                continue
            outcome = await ask(self._direct, job, name, gang.checkpoint, mine)
            if outcome is not None:
                saved[name] = outcome
        return JobActResult(PodAct.CHECKPOINT, saved=saved)

    # -- what it cost ------------------------------------------------------------------------------

    async def unavailable(self, job: Job, now: datetime) -> timedelta:
        total = timedelta()
        for absence in read_notes(job):
            query = {"labelSelector": absence.selector, **FROM_CACHE}
            listed = await self._kube.get(paths.pods(absence.namespace), pod_list, query)
            total += waited(absence, listed.items, now)
        return total


def migrate_of(job: Job) -> MigrateStep:
    return job.step.migrate if job.step is not None and job.step.migrate else MigrateStep()


def _grace_seconds(job: Job) -> int | None:
    """Return the grace in seconds; None: each pod's own."""
    grace = migrate_of(job).grace_period
    return None if grace == "pod" else int(parse_duration(grace).total_seconds())


def _to_result(job: Job, act: PodAct, eviction: EvictionResult) -> JobActResult:
    born = {s.owner: s.since for s in surge_replicas.owned(job)}
    return JobActResult(
        act,
        evicted=tuple(pod.metadata.key for pod in eviction.accepted),
        moved=note(eviction.accepted, eviction.at, born),
        blocked=eviction.blocked,
        error=eviction.error,
    )
