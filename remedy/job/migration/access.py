"""Pods of a node at the API server: list them, evict or delete them, find what replaced them.

Pods are listed per node when they are needed and not watched: a cache of all pods of a large
cluster would be most of the process's memory. Lists come from the server's own cache, by its index
of nodes; only "nothing is left" is asked of the store itself.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from enum import Enum

import msgspec

from kubenode.api.duration import parse_duration
from kubenode.api.v1alpha1.steps import MigrateStep
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Conflict, KubeError, NotFound, Throttled
from kubenode.runtime.kube.objects import Pod, Structs
from remedy.job.migration import budgets, surging
from remedy.job.migration.absence import note, read_notes, waited
from remedy.job.migration.checkpoint import PACE, Direct, Nobody, ask, members
from remedy.job.migration.controllers import Controllers
from remedy.job.migration.force import deletion
from remedy.job.migration.gangs import read as read_gangs
from remedy.job.migration.gate import Gate
from remedy.job.migration.memory import Memory
from remedy.job.migration.plan import Known, plan
from remedy.job.migration.policy import STATEFUL_SET, Protection, owner
from remedy.job.migration.words import Blocked, Pods
from remedy.job.model import Act, Heard, Job, Seen

FROM_CACHE = {"resourceVersion": "0"}
FINAL = frozenset({400, 403, 422})
"""Refusals of one pod by the server's rules or an admission webhook."""


class _PodList(msgspec.Struct):
    items: list[Pod] = []


_pod_list: Structs[_PodList] = Structs(_PodList)


class _Told(Enum):
    """TOLD  it goes
    GONE  it had gone, or is another one by now
    LATER the server could not be asked
    """

    TOLD = 1
    GONE = 2
    LATER = 3


Answer = _Told | Blocked


def nobody() -> int:
    return 0


class PodAccess:
    """cordoning  how many jobs may act and have not cordoned their nodes yet
    direct     tells receivers of checkpoints
    """

    def __init__(
        self,
        kube: Kube,
        protection: Protection,
        clock: Clock,
        cordoning: Callable[[], int] = nobody,
        direct: Direct | None = None,
    ) -> None:
        self._kube, self._protection, self._clock = kube, protection, clock
        self._cordoning, self._direct = cordoning, direct or Nobody()
        self._gate, self._memory = Gate(clock), Memory()
        self._controllers = Controllers(kube)
        self._gangs_asked: dict[tuple[str, str], datetime] = {}

    async def on_node(self, job: Job, *, cached: bool) -> list[Pod]:
        query = {"fieldSelector": f"spec.nodeName={job.spec.node_name}"}
        if cached:
            query |= FROM_CACHE
        return (await self._kube.get(paths.pods(), _pod_list, query)).items

    async def left(self, job: Job) -> Pods:
        """What is to be done next. Nothing is left only if the store itself says so."""
        found = await self._plan(job, await self.on_node(job, cached=True))
        if found.left:
            return found
        found = await self._plan(job, await self.on_node(job, cached=False))
        if not found.left:
            self._memory.forget(job.name)
        return found

    async def _plan(self, job: Job, pods: list[Pod]) -> Pods:
        now, record, step = self._clock.now(), job.record, migrate_of(job)
        self._memory.listed(job.name, pods)
        controllers, protection = self._controllers, self._protection
        surges, places = await controllers.surges(job, step, pods, protection, now)
        known = Known(
            now=now,
            began=(record.started_at if record is not None else None) or now,
            asked=self._memory.asked(job.name, now),
            blocked=self._memory.blocked(job.name),
            sets=await controllers.incomplete(pods, now),
            surges=surges,
            surging=places,
            gangs=read_gangs(record.output if record is not None else {}),
            asking=self._asking(job, now),
            local=await controllers.local(pods, step),
            cordoning=self._cordoning(),
            calm=self._gate.calm,
        )
        return plan(pods, step, protection, known)

    # -- evict and delete --------------------------------------------------------------------------

    async def evict(self, job: Job, keys: Sequence[str]) -> Heard:
        """One eviction for each of `keys`, in their order, under the uid that was seen."""
        grace = _grace_seconds(job)

        async def evict(pod: Pod) -> None:
            namespace, name = pod.metadata.namespace, pod.metadata.name
            options: dict[str, object] = {"preconditions": {"uid": pod.metadata.uid}}
            if grace is not None:
                options["gracePeriodSeconds"] = grace
            body = {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": name, "namespace": namespace},
                "deleteOptions": options,
            }
            await self._kube.create(paths.eviction(namespace, name), body)

        now = self._clock.now()
        pods = [
            pod
            for pod in self._memory.pods(job.name, keys)
            if not self._controllers.taken(_set_uid(pod), now)
        ]
        return await self._each(job, Act.EVICT, pods, evict)

    async def delete(self, job: Job, keys: Sequence[str], *, force: bool) -> Heard:
        """Past the budgets. `force`: without grace, for a host that is proven to be off."""
        grace = 0 if force else _grace_seconds(job)

        async def delete(pod: Pod) -> None:
            path = paths.pod(pod.metadata.namespace, pod.metadata.name)
            await self._kube.delete(path, uid=pod.metadata.uid, grace_seconds=grace)

        asked = self._memory.asked(job.name, self._clock.now())
        pods = [p for p in self._memory.pods(job.name, keys) if p.metadata.uid not in asked]
        return await self._each(job, Act.DELETE_PODS, pods, delete)

    async def _each(
        self, job: Job, act: Act, pods: Sequence[Pod], tell: Callable[[Pod], Awaitable[None]]
    ) -> Heard:
        began = self._clock.now()
        errors: list[str] = []

        async def one(pod: Pod) -> Answer:
            try:
                await tell(pod)
            except KubeError as error:
                answer = self._refused(pod, error)
                if answer is _Told.LATER:
                    errors.append(str(error))
                return answer
            self._gate.served()
            return _Told.TOLD

        pairs = list(zip(pods, await self._gate.each(pods, one), strict=True))
        now = self._clock.now()
        for pod, answer in pairs:
            if not isinstance(answer, Blocked):
                self._memory.gone(job.name, pod.metadata.uid, now)
        told = [pod for pod, answer in pairs if answer is _Told.TOLD]
        self._controllers.take(told, began)
        born = {s.owner: s.since for s in surging.owned(job)}
        refused = [(pod, b) for pod, b in pairs if isinstance(b, Blocked)]
        return Heard(
            act,
            evicted=tuple(pod.metadata.key for pod in told),
            moved=note(told, began, born),
            blocked=await self._named(job, refused, now),
            error=errors[0] if errors else "",
        )

    def _refused(self, pod: Pod, error: KubeError) -> Answer:
        if isinstance(error, (NotFound, Conflict)):
            return _Told.GONE
        if budgets.of_budget(error) or error.status in FINAL:
            return Blocked(pod.metadata.key, "", error.message)
        if isinstance(error, Throttled):
            self._gate.throttled(error.retry_after)
        return _Told.LATER

    async def _named(
        self, job: Job, refused: Sequence[tuple[Pod, Blocked]], now: datetime
    ) -> Blocked | None:
        """The first of them, with what refuses it; all are remembered."""
        named = await budgets.named(self._kube, refused)
        told = [
            self._memory.refused(job.name, pod.metadata.uid, blocked, now)
            for (pod, _), blocked in zip(refused, named, strict=True)
        ]
        return told[0] if told else None

    async def move(self, job: Job, what: Act, seen: Seen) -> Heard:
        """What is done to pods besides evicting them."""
        match what:
            case Act.DELETE_PODS:
                keys, force = deletion(seen)
                return await self.delete(job, keys, force=force)
            case Act.SURGE:
                return await self.surge(job, seen)
            case Act.UNSURGE:
                return await self.unsurge(job, seen)
            case Act.CHECKPOINT:
                return await self.checkpoint(job, seen)
            case _:
                raise AssertionError(f"{what} moves no pod")

    # -- surge -------------------------------------------------------------------------------------

    async def surge(self, job: Job, seen: Seen) -> Heard:
        """Raise what is written down and not raised yet."""
        for surge in seen.pods.surges.up if seen.pods is not None else ():
            await self._controllers.replicas.raise_by(surge.key, job.name, surge.count)
        return Heard(Act.SURGE)

    async def unsurge(self, job: Job, seen: Seen) -> Heard:
        """Lower what is over; at the end of the step, or of the job, all of it."""
        over = seen.pods.surges.over if seen.pods is not None else {}
        keys = [s.key for s in surging.owned(job) if not over or s.key in over]
        for key in keys:
            await self._controllers.replicas.lower(key, job.name)
        return Heard(Act.UNSURGE, lowered={key: over.get(key, "") for key in keys})

    # -- gangs -------------------------------------------------------------------------------------

    def _asking(self, job: Job, now: datetime) -> frozenset[str]:
        """Gangs whose receiver may be asked now; those of others do not matter."""
        self._gangs_asked = {k: at for k, at in self._gangs_asked.items() if at + PACE > now}
        lately = {gang for name, gang in self._gangs_asked if name == job.name}
        record = job.record
        states = read_gangs(record.output if record is not None else {})
        return frozenset(g for g, s in states.items() if not s.over and g not in lately)

    async def checkpoint(self, job: Job, seen: Seen) -> Heard:
        wanted = seen.pods.checkpoint if seen.pods is not None else ()
        pods = self._memory.every(job.name)
        gangs = members(pods, migrate_of(job), self._protection)
        saved: dict[str, str] = {}
        for name in wanted:
            if name not in gangs:
                continue
            gang, mine = gangs[name]
            self._gangs_asked[job.name, name] = self._clock.now()
            if gang.checkpoint is None:
                continue
            said = await ask(self._direct, job, name, gang.checkpoint, mine)
            if said is not None:
                saved[name] = said
        return Heard(Act.CHECKPOINT, saved=saved)

    # -- what it cost ------------------------------------------------------------------------------

    async def unavailable(self, job: Job, now: datetime) -> timedelta:
        total = timedelta()
        for found in read_notes(job):
            query = {"labelSelector": found.selector, **FROM_CACHE}
            listed = await self._kube.get(paths.pods(found.namespace), _pod_list, query)
            total += waited(found, listed.items, now)
        return total


def migrate_of(job: Job) -> MigrateStep:
    return job.step.migrate if job.step is not None and job.step.migrate else MigrateStep()


def _grace_seconds(job: Job) -> int | None:
    """None: each pod's own."""
    grace = migrate_of(job).grace_period
    return None if grace == "pod" else int(parse_duration(grace).total_seconds())


def _set_uid(pod: Pod) -> str:
    ref = owner(pod)
    return ref.uid if ref is not None and ref.kind == STATEFUL_SET else ""
