"""Receives this agent's jobs and probes from its AgentAssignment, or from watches.

The operator writes one AgentAssignment with the name of each agent, which lists the objects to
read. A watch by `metadata.name` costs the API server nothing when other objects are written. A
watch by `spec.agent` is evaluated at each write of a job, and there is one of them for each agent.
Without an AgentAssignment (an older operator, or a new agent) the agent watches by `spec.agent` and
checks periodically whether the object exists.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Protocol, TypeVar

from agent.kubejobs import PLURAL as JOBS
from agent.prober import PLURAL as PROBES
from agent.wire import Assignment, Probe, WireJob, decode_assignment, decode_job, decode_probe
from kubenode.runtime.clock import Clock, wait
from kubenode.runtime.controller.queue import WorkQueue
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Forbidden, KubeError, NotFound
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.paths import custom
from kubenode.runtime.rate import Backoff, Spread

log = logging.getLogger(__name__)

PLURAL = "agentassignments"
CHECK_SECONDS = 300.0
"""Interval of the checks whether an AgentAssignment exists."""
RELIST_SPREAD = 10.0
"""Seconds over which the lists of all agents are spread.

They would coincide after the API server lost the watches, or after all assignments were deleted.
"""
RETRY_LOW, RETRY_HIGH = 0.5, 10.0
READERS = 2
WATCHED = "\0"
"""Stands for a request that is known from a watch and has to be read again."""
HIGHEST_READ_RETRY = 30.0

RequestT = TypeVar("RequestT", WireJob, Probe)
Item = tuple[str, str]
"""Plural and name of an object to read."""


class JobReceiver(Protocol):
    def observe_job(self, name: str, job: WireJob | None) -> None: ...


class ProbeReceiver(Protocol):
    def observe_probe(self, name: str, probe: Probe | None) -> None: ...


class RequestSource:
    """Part: passes every open job and probe of `agent` to `worker` and `prober`.

    jobs, questions: watches by `spec.agent`, used while there is no assignment
    assignment: watch of the agent's own AgentAssignment
    """

    name = "requests"

    def __init__(
        self,
        kube: Kube,
        agent: str,
        worker: JobReceiver,
        prober: ProbeReceiver,
        clock: Clock,
        watch_seconds: float,
        *,
        spread: Spread = random.random,
    ) -> None:
        self._kube, self._agent, self._clock, self._spread = kube, agent, clock, spread
        self._worker, self._prober = worker, prober
        self._watch_seconds = watch_seconds
        self._assigned: dict[Item, str] = {}
        self._lost = asyncio.Event()
        self._queue: WorkQueue[Item] = WorkQueue(clock, high=HIGHEST_READ_RETRY, spread=spread)
        self.jobs = self._watch_of(JOBS, decode_job)
        self.jobs.add_handler(lambda key, old, new: worker.observe_job(key, new))
        self.questions = self._watch_of(PROBES, decode_probe)
        self.questions.add_handler(lambda key, old, new: prober.observe_probe(key, new))
        self.assignment: Informer[Assignment] = Informer(
            kube,
            custom(PLURAL),
            decode_assignment,
            field_selector=f"metadata.name={agent}",
            clock=clock,
            name="own assignment",
            watch_seconds=watch_seconds,
            relist_spread=RELIST_SPREAD,
            relist_after_loss=True,
            spread=spread,
        )
        self.assignment.add_handler(lambda key, old, new: self._changed(new))

    def _watch_of(self, plural: str, decode: Callable[[bytes], RequestT]) -> Informer[RequestT]:
        return Informer(
            self._kube,
            custom(plural),
            decode,
            field_selector=f"spec.agent={self._agent}",
            clock=self._clock,
            watch_seconds=self._watch_seconds,
            relist_spread=RELIST_SPREAD,
            relist_after_loss=True,
            spread=self._spread,
        )

    async def run(self) -> None:
        """Follow the assignment if it exists, else the watches, until cancelled."""
        while True:
            if await self._exists():
                log.info("the agent follows its assignment", extra={"agent": self._agent})
                await self._follow_assignment()
                await self._clock.sleep(RELIST_SPREAD * self._spread())
            else:
                log.info("the agent has no assignment: it watches", extra={"agent": self._agent})
                await self._watch_all()

    async def _exists(self) -> bool:
        """Return whether the agent's AgentAssignment exists. Retries while the API server fails."""
        backoff = Backoff(RETRY_LOW, RETRY_HIGH, self._spread)
        path = custom(PLURAL, self._agent)
        while True:
            outage_ended = self._kube.outage.ended
            try:
                await self._kube.get(path, decode_assignment)
            except (NotFound, Forbidden):
                return False
            except KubeError as error:
                extra = {"agent": self._agent, "why": str(error)}
                log.warning("the agent cannot read its assignment", extra=extra)
                await wait(self._clock, outage_ended, max(backoff.next(), error.retry_after or 0.0))
            else:
                return True

    # -- without an assignment ------------------------------------------------------------------

    async def _watch_all(self) -> None:
        """Watch by `spec.agent` until an assignment exists."""
        for item in self._assigned:
            self._deliver(item, None)
        self._assigned = {}
        for name, job in [*self.jobs.cache.items()]:  # cached before the assignment was used
            self._worker.observe_job(name, job)
        for name, probe in [*self.questions.cache.items()]:
            self._prober.observe_probe(name, probe)
        async with asyncio.TaskGroup() as tasks:
            watches = [tasks.create_task(each.run()) for each in (self.jobs, self.questions)]
            await self._pause_between_checks()
            while not await self._exists():
                await self._pause_between_checks()
            for watch in watches:
                watch.cancel()

    async def _pause_between_checks(self) -> None:
        await self._clock.sleep(CHECK_SECONDS * (0.5 + self._spread()))

    # -- with an assignment ---------------------------------------------------------------------

    async def _follow_assignment(self) -> None:
        """Read what the assignment names until it is deleted."""
        self._lost.clear()
        known = [(JOBS, name) for name in self.jobs.cache]
        known += [(PROBES, name) for name in self.questions.cache]
        self._assigned = dict.fromkeys(known, WATCHED)
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(self.assignment.run())]
            running.append(tasks.create_task(self._queue.run()))
            running += [tasks.create_task(self._read_all()) for _ in range(READERS)]
            if (have := self.assignment.get(self._agent)) is not None:
                self._changed(have)  # cached before: the handler is not called again
            await self._until_lost()
            for task in running:
                task.cancel()

    async def _until_lost(self) -> None:
        """Wait until the assignment is gone. The watch reports a deleted object, but not a
        deleted CRD.
        """
        while True:
            seconds = CHECK_SECONDS * (0.5 + self._spread())
            if await wait(self._clock, self._lost, seconds):
                return
            fresh = self.assignment.fresh(self._watch_seconds + CHECK_SECONDS)
            if not fresh and not await self._exists():
                return

    def _changed(self, assignment: Assignment | None) -> None:
        """Handle a change of the own assignment."""
        if assignment is None:
            self._lost.set()
            return
        wanted = assignment.items(JOBS, PROBES)
        for item in self._assigned.keys() - wanted.keys():
            self._deliver(item, None)
        for item, request in wanted.items():
            if self._assigned.get(item) != request:
                self._queue.add(item)
        self._assigned = wanted

    def read_again(self, job: str) -> None:
        """Read a job again whose handling failed: the known state may be old."""
        if (JOBS, job) in self._assigned:
            self._queue.add((JOBS, job))

    async def _read_all(self) -> None:
        while True:
            item = await self._queue.get()
            try:
                if item in self._assigned:
                    await self._read(item)
                self._queue.forget(item)
            except KubeError as error:
                delay = self._queue.retry(item, at_least=error.retry_after or 0.0)
                extra = {"object": item[1], "why": str(error), "again_seconds": round(delay, 1)}
                log.warning("what is asked of the agent cannot be read", extra=extra)
            finally:
                self._queue.done(item)

    async def _read(self, item: Item) -> None:
        plural, name = item
        request: WireJob | Probe | None
        try:
            if plural == JOBS:
                request = await self._kube.get(custom(plural, name), decode_job)
            else:
                request = await self._kube.get(custom(plural, name), decode_probe)
        except NotFound:
            request = None
        if item in self._assigned:
            self._deliver(item, request)

    def _deliver(self, item: Item, request: WireJob | Probe | None) -> None:
        plural, name = item
        if plural == JOBS:
            assert not isinstance(request, Probe)
            self._worker.observe_job(name, request)
        else:
            assert not isinstance(request, WireJob)
            self._prober.observe_probe(name, request)
