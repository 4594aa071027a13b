"""One real agent for each simulated host, all fed by one watch of jobs and one of probes.

A real agent watches its own objects. Hundreds of watches in one process would mostly measure
themselves, so an informer passes each object to the agent that it names. Everything else, from the
request to the journal and the answer, is the agent's own code.
"""

import asyncio
import random
from collections.abc import Iterable, Mapping
from datetime import datetime

from agent.actions import SETTLE_SECONDS, Bench
from agent.agent import Worker
from agent.components.assembly import Components
from agent.components.publisher import PLURAL as MACHINES
from agent.components.publisher import decode_machine
from agent.components.reachability import RealReach
from agent.components.records import MemoryRecords
from agent.core import AgentCore
from agent.heartbeat import EVERY_SECONDS, Heartbeat
from agent.jobpermits import JobPermits
from agent.journal import MemoryJournal
from agent.kubejobs import PLURAL, KubeJobs
from agent.machine import HostReporter
from agent.machine import host as machine_host
from agent.prober import PLURAL as PROBES
from agent.prober import Prober
from agent.version import version
from agent.wire import Probe, WireJob, decode_job, decode_probe
from kubenode.runtime.clock import Clock
from kubenode.runtime.components.wire import WireMachine as Declared
from kubenode.runtime.disruption.permits import ApiPermits
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.process import Part
from simulation.demo.hostclock import HostClock
from simulation.demo.hosts import DemoHost
from simulation.demo.machines import DemoMachine
from simulation.hosts.components import SimulatedComponents

BEATS_PER_SECOND = 30.0


class Agents:
    """A Part: workers and heartbeats of all agents, and the informers that feed them."""

    name = "agents"

    def __init__(
        self,
        kube: Kube,
        hosts: Iterable[DemoHost],
        software: Mapping[str, SimulatedComponents],
        clock: Clock,
        speed: float,
        rng: random.Random,
    ) -> None:
        self.jobs: Informer[WireJob] = Informer(
            kube,
            paths.custom(PLURAL),
            decode_job,
            clock=clock,
            name="agents' jobs",
            relist_after_loss=True,
        )
        self.questions: Informer[Probe] = Informer(
            kube,
            paths.custom(PROBES),
            decode_probe,
            clock=clock,
            name="agents' questions",
            relist_after_loss=True,
        )
        self.declared: Informer[Declared] | None = None
        if software:
            self.declared = Informer(
                kube,
                paths.custom(MACHINES),
                decode_machine,
                clock=clock,
                name="agents' machines",
                relist_after_loss=True,
            )
            self.declared.add_handler(self._declared)
        hosts = list(hosts)
        by_address = {host.place.address: host for host in hosts}

        def answers(address: str) -> bool:
            return address in by_address and by_address[address].answers

        every = max(EVERY_SECONDS, len(hosts) / BEATS_PER_SECOND)
        self._agents = {
            host.name: _Agent(
                kube,
                host,
                DemoMachine(host, HostClock(clock, host), speed, rng, answers),
                software.get(host.name),
                clock,
                speed,
                self,
                every,
            )
            for host in hosts
        }
        self._clock = clock
        self._every = every
        self._rng = rng
        self.jobs.add_handler(self._changed)
        self.questions.add_handler(self._notify_prober)

    def _changed(self, name: str, old: WireJob | None, new: WireJob | None) -> None:
        job = new or old
        agent = self._agents.get(job.spec.agent) if job is not None else None
        if agent is not None and agent.worker is not None:
            agent.worker.observe_job(name, new)

    def _notify_prober(self, name: str, old: Probe | None, new: Probe | None) -> None:
        probe = new or old
        agent = self._agents.get(probe.spec.agent) if probe is not None else None
        if agent is not None and agent.prober is not None:
            agent.prober.observe_probe(name, new)

    def _declared(self, name: str, old: Declared | None, new: Declared | None) -> None:
        agent = self._agents.get(name)
        if agent is not None and agent.components is not None:
            agent.components.observe_machine(new)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            if self.declared is not None:
                tasks.create_task(self.declared.run(), name="agents' machines")
            tasks.create_task(self.jobs.run(), name="agents' jobs")
            tasks.create_task(self.questions.run(), name="agents' questions")
            for agent in self._agents.values():
                tasks.create_task(agent.run(self._rng.uniform(0, self._every)), name="agent")


class _Agent:
    """The agent of one host. It ends with each boot of the host; its journal stays.

    software: the component ports of the host; None if it has no components.
    worker, prober, components: None while the host is down.
    """

    def __init__(
        self,
        kube: Kube,
        host: DemoHost,
        machine: DemoMachine,
        software: SimulatedComponents | None,
        clock: Clock,
        speed: float,
        fed_by: Agents,
        every: float,
    ) -> None:
        self._kube, self._host, self._machine = kube, host, machine
        self._server_clock, self._clock = clock, HostClock(clock, host)
        self._software, self._records = software, MemoryRecords()
        self._bench = Bench(machine, self._clock, SETTLE_SECONDS / speed, ports=machine.ports)
        self._journal = MemoryJournal()
        self._fed_by, self._every = fed_by, every
        self.worker: Worker | None = None
        self.prober: Prober | None = None
        self.components: Components | None = None

    async def run(self, first_beat: float) -> None:
        while True:
            await self._host.up.wait()
            async with asyncio.TaskGroup() as tasks:
                process = tasks.create_task(self._process(first_beat))
                await self._host.down.wait()
                process.cancel()
            self.worker = self.prober = self.components = None
            first_beat = 0.0

    async def _process(self, first_beat: float) -> None:
        """Run the agent until it is cancelled at the end of the boot."""
        name = self._host.name
        core = AgentCore(
            KubeJobs(self._kube),
            self._bench,
            self._journal,
            node=name,
            agent=name,
            permits=JobPermits(ApiPermits(self._kube)),
            server_now=self._server_now,
        )
        worker = self.worker = Worker(core, self._clock)
        prober = self.prober = Prober(
            self._kube, self._machine, name, self._clock, self._server_now
        )
        for key, job in self._fed_by.jobs.cache.items():
            if job.spec.agent == name:
                worker.observe_job(key, job)
        for key, probe in self._fed_by.questions.cache.items():
            if probe.spec.agent == name:
                prober.observe_probe(key, probe)
        software = self._managed(worker)
        heartbeat = Heartbeat(self._kube, self._machine, name, self._clock, every=self._every)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(worker.run(), name="agent's jobs")
            tasks.create_task(prober.run(), name="agent's questions")
            tasks.create_task(self._beat(heartbeat, first_beat), name="agent's heartbeat")
            for part in software:
                tasks.create_task(part.run(), name="agent's components")

    def _server_now(self) -> datetime:
        """Return the time that the header `Date` of the API server's responses would show."""
        return self._server_clock.now()

    def _managed(self, worker: Worker) -> list[Part]:
        """Return the parts that manage the components of this host."""
        declared = self._fed_by.declared
        if self._software is None or declared is None:
            return []
        name, about = self._host.name, machine_host(self._host.boot_id, version())
        components = self.components = Components(
            self._kube,
            name,
            self._software.ports(),
            RealReach(),
            self._records,
            self._machine,
            about,
            self._clock,
            worker.hands,
            worker.busy,
            worker.conflict,
        )
        if (known := declared.get(name)) is not None:
            components.observe_machine(known)
        return [HostReporter(self._kube, name, about, self._clock), *components.parts]

    async def _beat(self, heartbeat: Heartbeat, first: float) -> None:
        await self._clock.sleep(first)
        await heartbeat.run()
