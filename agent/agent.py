"""Assembles the parts of an agent: requests, worker, prober, heartbeat and detectors.

A real host runs `Agent`, which has its own watches. The demo runs hundreds of agents in one
process: it uses `Worker` and feeds it from one shared informer.
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
from agent.host.files import HostRoot
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
"""Seconds until a watch is renewed; 10,000 agents share the API server."""
RETRY_HIGH = 30.0
"""Longest backoff in seconds while the API server is unreachable."""


class Worker:
    """Part: takes jobs and answers their requests, one job at a time.

    recovered: set once the interrupted requests of an earlier process are settled
    hands: mutex that is held by whatever acts on the host
    """

    name = "worker"

    def __init__(self, core: AgentCore, clock: Clock, hands: asyncio.Lock | None = None) -> None:
        self._core = core
        self._jobs: dict[str, WireJob] = {}
        self._queue: WorkQueue[str] = WorkQueue(clock, high=RETRY_HIGH)
        self.recovered = asyncio.Event()
        self.hands = hands or asyncio.Lock()
        self.read_again: Callable[[str], None] = lambda job: None
        """Called with the name of a job whose answer failed and that should be read again."""

    def observe_job(self, name: str, job: WireJob | None) -> None:
        """Take the newest state of a job; None if it was deleted. Never blocks."""
        if job is None:
            self._jobs.pop(name, None)
            return
        self._jobs[name] = job
        self._queue.add(name)

    def busy(self) -> str:
        """Describe an open job for this host; "" if none is known."""
        for name, job in self._jobs.items():
            if job.status is None or job.status.phase not in CLOSED:
                return f"job {name} is open"
        return ""

    def conflict(self, permit: str) -> str:
        """Describe an open job that holds this host under another permit; "" if there is none."""
        for name, job in self._jobs.items():
            status = job.status
            if status is None or status.phase in CLOSED or status.permit is None:
                continue
            if status.permit.name not in ("", permit):
                return f"job {name} holds the node under permit {status.permit.name}"
        return ""

    async def run(self) -> None:
        """Raises JournalError if the journal of an earlier process cannot be read."""
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
    """Agent of one host.

    kube: client for the API server under the agent's own identity
    node: name of the Node, as in spec.nodeName of jobs
    agent: name of the agent, as in spec.agent of jobs, and of its Lease
    probes: answers HostProbes
    detectors: watch the host and report through `outbox`
    limit: limit of local restarts; None: no local repairs
    renewed: called once, after the first renewal of the Lease
    host_root: where the host's root is mounted
    settle: seconds that a unit must stay up to count as started
    checks: checks that RunCheck may run, by name
    collector: collects diagnostics
    metadata: settings of the cloud's metadata service, for ApproveEvent
    ports: the host besides its units; None: only units can be repaired
    allowed: what the configuration lets repairs change
    scripts: scripts that RunScript may run, by name
    software: ports and records of components; None: the agent manages none
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
            files=HostRoot(host_root),
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
        """Describe what the agent is doing, in one line."""
        if self.worker.hands.locked():
            return "working on a job"
        return self.worker.busy() or "no open job"

    async def run(self) -> None:
        """Run all parts until cancelled. Raises an ExceptionGroup if a part fails."""
        async with asyncio.TaskGroup() as tasks:
            for part in self.parts:
                tasks.create_task(part.run(), name=part.name)
