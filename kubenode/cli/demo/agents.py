"""One real agent per simulated host, all fed from one watch of jobs and one of questions.

A real agent watches its own. Hundreds of watches in one process would measure nothing but
themselves, so here an informer hands each object to the agent it names; everything behind that,
from the request to the journal and the answer, is the agent's own code.
"""

import asyncio
import random
from collections.abc import Iterable

from agent.actions import SETTLE_SECONDS, Bench
from agent.agent import Worker
from agent.core import AgentCore
from agent.heartbeat import EVERY_SECONDS, Heartbeat
from agent.journal import MemoryJournal
from agent.kubejobs import PLURAL, KubeJobs
from agent.prober import PLURAL as PROBES
from agent.prober import Prober
from agent.wire import Job, Probe, decode_job, decode_probe
from kubenode.cli.demo.hosts import Host
from kubenode.cli.demo.machines import Machine
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informer import Informer

BEATS_PER_SECOND = 30.0


class Agents:
    """A Part: every agent's worker and heartbeat, and the informer that feeds them."""

    name = "agents"

    def __init__(
        self,
        kube: Kube,
        hosts: Iterable[Host],
        clock: Clock,
        speed: float,
        rng: random.Random,
    ) -> None:
        self.jobs: Informer[Job] = Informer(
            kube, paths.custom(PLURAL), decode_job, clock=clock, name="agents' jobs"
        )
        self.questions: Informer[Probe] = Informer(
            kube, paths.custom(PROBES), decode_probe, clock=clock, name="agents' questions"
        )
        self._workers: dict[str, Worker] = {}
        self._probers: dict[str, Prober] = {}
        self._heartbeats: list[Heartbeat] = []
        machines = [Machine(host, clock, speed, rng) for host in hosts]
        every = max(EVERY_SECONDS, len(machines) / BEATS_PER_SECOND)
        for machine in machines:
            core = AgentCore(
                KubeJobs(kube),
                Bench(machine, clock, SETTLE_SECONDS / speed),
                MemoryJournal(),
                node=machine.name,
                agent=machine.name,
            )
            self._workers[machine.name] = Worker(core, clock)
            self._probers[machine.name] = Prober(kube, machine, machine.name, clock)
            self._heartbeats.append(Heartbeat(kube, machine, machine.name, clock, every=every))
        self._clock = clock
        self._every = every
        self._rng = rng
        self.jobs.add_handler(self._changed)
        self.questions.add_handler(self._asked)

    def _changed(self, name: str, old: Job | None, new: Job | None) -> None:
        job = new or old
        worker = self._workers.get(job.spec.agent) if job is not None else None
        if worker is not None:
            worker.seen(name, new)

    def _asked(self, name: str, old: Probe | None, new: Probe | None) -> None:
        probe = new or old
        prober = self._probers.get(probe.spec.agent) if probe is not None else None
        if prober is not None:
            prober.seen(name, new)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.jobs.run(), name="agents' jobs")
            tasks.create_task(self.questions.run(), name="agents' questions")
            for prober in self._probers.values():
                tasks.create_task(prober.run(), name="agent's questions")
            for worker in self._workers.values():
                tasks.create_task(worker.run(), name="agent")
            for heartbeat in self._heartbeats:
                tasks.create_task(self._beat(heartbeat), name="agent's heartbeat")

    async def _beat(self, heartbeat: Heartbeat) -> None:
        await self._clock.sleep(self._rng.uniform(0, self._every))
        await heartbeat.run()
