"""The agent at work: a watch on its jobs and questions, a worker for each, a heartbeat.

The demo runs hundreds of these in one process and feeds them from one shared informer: it uses
`Worker` with its own watch. A real host runs `Agent`, which brings the watch along.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from agent.actions import SETTLE_SECONDS, Bench
from agent.actions.allowlist import AllowedScript, Repairs
from agent.actions.checks import AllowedCheck
from agent.assignment import RequestSource
from agent.components.assembly import Components
from agent.components.ports import ComponentPorts
from agent.components.reachability import RealReach
from agent.components.records import Records
from agent.core import AgentCore
from agent.detector_runner import DetectorRunner
from agent.detectors import Detector
from agent.detectors.metadata.settings import Metadata
from agent.diagnostics.bundler import DiagnosticsCollector
from agent.heartbeat import Heartbeat
from agent.host import Host
from agent.host.ports import Ports
from agent.jobpermits import JobPermits
from agent.journal import Journal
from agent.kubejobs import KubeJobs
from agent.local.healer import LocalHealer
from agent.local.limit import RestartLimit
from agent.machine import HostReporter
from agent.machine import host as machine_host
from agent.nodestatus.publisher import Publisher
from agent.outbox import Outbox
from agent.patience import Patience
from agent.prober import Prober
from agent.probes import Probes
from agent.request import CLOSED
from agent.version import version
from agent.wire import WireJob
from kubenode.runtime.clock import Clock
from kubenode.runtime.controller.queue import WorkQueue
from kubenode.runtime.disruption.permits import ApiPermits
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import KubeError
from kubenode.runtime.process import Part

log = logging.getLogger(__name__)

WATCH_SECONDS = 300.0
"""Length of a watch. 10,000 agents share the server."""
RETRY_HIGH = 30.0
"""Longest wait between two tries to answer while the API server is away."""


class Worker:
    """Jobs in, answers out, one job at a time. A Part: runs until cancelled.

    recovered  set once what an earlier process left is settled
    hands      held by whoever acts on the host
    """

    name = "worker"

    def __init__(self, core: AgentCore, clock: Clock, hands: asyncio.Lock | None = None) -> None:
        self._core = core
        self._jobs: dict[str, WireJob] = {}
        self._queue: WorkQueue[str] = WorkQueue(clock, high=RETRY_HIGH)
        self.recovered = asyncio.Event()
        self.hands = hands or asyncio.Lock()
        self.read_again: Callable[[str], None] = lambda job: None
        """Called with a job that has to be tried again, for who knows how to read it anew."""

    def observe_job(self, name: str, job: WireJob | None) -> None:
        """The newest state of a job, None when it is gone. Never blocks."""
        if job is None:
            self._jobs.pop(name, None)
            return
        self._jobs[name] = job
        self._queue.add(name)

    def busy(self) -> str:
        """Which open job is about this host, "" if none is known."""
        for name, job in self._jobs.items():
            if job.status is None or job.status.phase not in CLOSED:
                return f"job {name} is open"
        return ""

    def conflict(self, permit: str) -> str:
        """Which open job holds this host under another permit than `permit`, "" if none does."""
        for name, job in self._jobs.items():
            status = job.status
            if status is None or status.phase in CLOSED or status.permit is None:
                continue
            if status.permit.name not in ("", permit):
                return f"job {name} holds the node under permit {status.permit.name}"
        return ""

    async def run(self) -> None:
        """Raises JournalError when what an earlier process left cannot be read."""
        await self._core.recover()
        self.recovered.set()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._queue.run())
            tasks.create_task(self._work())

    async def _work(self) -> None:
        while True:
            name = await self._queue.get()
            try:
                if (job := self._jobs.get(name)) is not None:
                    async with self.hands:
                        await self._core.handle(job)
                self._queue.forget(name)
            except KubeError as error:
                delay = self._queue.retry(name, at_least=error.retry_after or 0.0)
                log.warning(
                    "a job waits for the API server",
                    extra={"job": name, "error": str(error), "again_seconds": round(delay, 1)},
                )
                self.read_again(name)
            finally:
                self._queue.done(name)


class Agent:
    """One host's agent, without globals.

    kube       the API server under the agent's own identity
    node       the node's name, as jobs give it in spec.nodeName
    agent      the agent's name, spec.agent of jobs and the name of its Lease
    probes     who answers questions about the host
    settle     seconds that a unit must stay up to count as started
    ports      the host besides its units; None: nothing but units is repaired
    allowed    what the configuration lets repairs touch
    scripts    what RunScript may run, by name
    checks     what RunCheck may run, by name
    detectors  what watches the host; they are told through `outbox`
    limit      of what is repaired without asking, if anything is
    renewed    called once, when the Lease was renewed for the first time
    host_root  where the host's files are, for what is only read
    collector  of diagnostics
    metadata   the cloud's metadata service, which ApproveEvent speaks to
    software   the host as its components need it, and where they are kept; None: none is managed
    """

    name = "agent"

    def __init__(
        self,
        kube: Kube,
        host: Host,
        node: str,
        agent: str,
        journal: Journal,
        clock: Clock,
        probes: Probes,
        *,
        detectors: Sequence[Detector] = (),
        outbox: Outbox | None = None,
        limit: RestartLimit | None = None,
        renewed: Callable[[], None] | None = None,
        host_root: str = "/",
        settle: float = SETTLE_SECONDS,
        watch_seconds: float = WATCH_SECONDS,
        checks: Mapping[str, AllowedCheck] | None = None,
        collector: DiagnosticsCollector | None = None,
        metadata: Metadata | None = None,
        ports: Ports | None = None,
        allowed: Repairs | None = None,
        scripts: Mapping[str, AllowedScript] | None = None,
        software: tuple[ComponentPorts, Records] | None = None,
    ) -> None:
        hands, about = asyncio.Lock(), machine_host(host.boot_id(), version(), host_root)
        self.components: Components | None = None
        if software is not None:
            self.components = Components(
                kube,
                agent,
                software[0],
                RealReach(),
                software[1],
                host,
                about,
                clock,
                hands,
                lambda: self.worker.busy(),
                lambda permit: self.worker.conflict(permit),
                patience=Patience(most=1),
            )
        bench = Bench(
            host,
            clock,
            settle,
            checks or {},
            collector,
            ports,
            allowed or Repairs(),
            scripts or {},
            metadata=metadata or Metadata(),
            components=self.components.engine if self.components is not None else None,
        )
        core = AgentCore(
            KubeJobs(kube),
            bench,
            journal,
            node=node,
            agent=agent,
            patience=Patience(most=1),
            server_now=kube.server_time.latest,
            permits=JobPermits(ApiPermits(kube)),
        )
        self.worker = Worker(core, clock, hands)
        self.heartbeat = Heartbeat(
            kube, host, agent, clock, renewed=renewed, offset=kube.server_time.offset
        )

        self.prober = Prober(kube, probes, agent, clock, kube.server_time.latest)
        self.requests = RequestSource(kube, agent, self.worker, self.prober, clock, watch_seconds)
        self.worker.read_again = self.requests.read_again
        self.parts: list[Part] = [
            self.heartbeat,
            self.requests,
            self.worker,
            self.prober,
            HostReporter(kube, agent, about, clock),
        ]
        if self.components is not None:
            self.parts += [self.components.watch(watch_seconds), *self.components.parts]
        self.publisher: Publisher | None = None
        if outbox is not None:
            self.publisher = Publisher(kube, node, agent, host.boot_id(), detectors, outbox, clock)
            self.parts += [self.publisher, DetectorRunner(detectors, self.publisher, clock)]
        if self.publisher is not None and limit is not None and limit.units:
            busy, patience = self.worker.busy, Patience(most=1)
            self.parts.append(
                LocalHealer(limit, host, hands, busy, self.publisher, clock, patience)
            )

    def status(self) -> str:
        """What it is at, in a line."""
        if self.worker.hands.locked():
            return "working on a job"
        return self.worker.busy() or "no open job"

    async def run(self) -> None:
        """Work until cancelled. Raises an ExceptionGroup when a part of it fails."""
        async with asyncio.TaskGroup() as tasks:
            for part in self.parts:
                tasks.create_task(part.run(), name=part.name)
