"""What every program of `kubenode run` starts with: clients, clock, metrics, leader election.

Before the first part starts, everything that a person can fix is checked: settings, kubeconfig,
server, credentials, CRDs, namespace. Parts that decide and act run only on the leader. Parts that
only follow the API server run on every replica. Each program is a module of its own, so that a
start imports no other program.
"""

import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from kubenode.cli.cluster import hello, require_crds, require_namespace
from kubenode.cli.settings import Central
from kubenode.cli.traces import traced
from kubenode.runtime.audit import SILENT, Audit, AuditLog, opened
from kubenode.runtime.clock import Clock, SystemClock
from kubenode.runtime.fence import AlwaysLeader, Fence
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informers import Informers
from kubenode.runtime.kube.official import connect
from kubenode.runtime.kube.outage import Outage
from kubenode.runtime.lease import LeaderElection, new_identity
from kubenode.runtime.process import Part, run_until_signal, serve
from kubenode.runtime.restore import KnownFile, RestoreWatch
from kubenode.runtime.telemetry import logging as logs
from kubenode.runtime.telemetry.health import HealthServer
from kubenode.runtime.telemetry.metrics import RuntimeMetrics

Flags = Mapping[str, Any]

LEASE_TIMEOUT = 5.0


@dataclass(frozen=True, slots=True)
class ProgramContext:
    """What every program is built on: clients, clock, metrics, leader election.

    election: None with --no-lease.
    lease_kube: the client for the Lease alone.
    """

    settings: Central
    kube: Kube
    fence: Fence
    election: LeaderElection | None
    clock: SystemClock
    metrics: RuntimeMetrics
    health: HealthServer
    lease_kube: Kube
    audit: Audit
    restore: RestoreWatch | None = None
    """None with --no-lease: the namespace for its record may not exist."""
    informers: Informers = field(default_factory=Informers)
    """One informer for each kind, shared by all readers in this process."""

    def frozen(self) -> str:
        """Return why nothing may be deleted, stopped or replaced now, "" if it may."""
        return self.restore.frozen() if self.restore is not None else ""

    def restored_or_unverified(self) -> str:
        """Return why a restore of etcd freezes acts or may do so, "" if it does not."""
        return self.restore.restored_or_unverified() if self.restore is not None else ""

    def unverified(self) -> str:
        """Return why a restore of etcd is still possible and not yet checked, "" if it is not."""
        return self.restore.unverified() if self.restore is not None else ""

    async def serve(self, parts: Sequence[Part], ground: Sequence[Part]) -> None:
        """Run until a signal: `parts` on the leader only, `ground` on every replica."""
        led = parts if self.election is None else [Led(self.election, parts)]
        watch = [] if self.restore is None else [self.restore]
        await run_until_signal(led, ground=[self.kube.delay, *ground, *watch, self.health])


class Led:
    """A Part that runs other parts while this replica leads.

    The process ends when the lease is lost.
    """

    name = "leader"

    def __init__(self, election: LeaderElection, parts: Sequence[Part]) -> None:
        self._election = election
        self._parts = parts

    async def run(self) -> None:
        await self._election.run(lambda: serve(self._parts))


@asynccontextmanager
async def standing(settings: Central, program: str) -> AsyncIterator[ProgramContext]:
    """Yield the checked context of `program`. Raises Refusal or KubeconfigError."""
    logs.setup(settings.log_level, settings.log_json)
    with traced(settings.traces_url, program):
        async with _standing(settings, program) as ground:
            yield ground


@asynccontextmanager
async def _standing(settings: Central, program: str) -> AsyncIterator[ProgramContext]:
    clock = SystemClock()
    registry = CollectorRegistry()
    metrics = RuntimeMetrics(registry)
    audit = _audit(settings, registry, clock)
    kube, lease_kube = clients(settings, metrics, clock)
    try:
        await hello(kube, settings.kubeconfig)
        await require_crds(kube)
        election = None
        if not settings.no_lease:
            await require_namespace(kube, settings.namespace)
            election = _election(lease_kube, settings, program)
            metrics.lease(program, election)
        where = settings.health_address, settings.health_port
        health = HealthServer(*where, registry, limits=settings.http_limits)
        fence: Fence = AlwaysLeader() if election is None else election
        yield ProgramContext(
            settings,
            kube,
            fence,
            election,
            clock,
            metrics,
            health,
            lease_kube,
            audit,
            None if election is None else _restore(kube, clock, registry, settings, program, audit),
        )
    finally:
        if isinstance(audit, AuditLog):
            audit.close()
        await kube.close()
        await lease_kube.close()


def clients(settings: Central, metrics: RuntimeMetrics, clock: Clock) -> tuple[Kube, Kube]:
    """Create the main client and the client of the Lease.

    The Lease is requested every 2 s by default, so its client is the first to notice the end of an
    API server outage, and informs the main client.
    """
    outage = Outage()
    main = Kube(
        connect(settings.kubeconfig, settings.context),
        clock=clock,
        rate=settings.request_rate,
        burst=settings.request_burst,
        gzip=settings.gzip,
        outage=outage,
        meter=metrics.client("main"),
    )
    lease = Kube(
        connect(settings.kubeconfig, settings.context),
        timeout=LEASE_TIMEOUT,
        attempts=1,
        clock=clock,
        outage=outage,
        meter=metrics.client("lease"),
    )
    return main, lease


def _restore(
    kube: Kube,
    clock: Clock,
    registry: CollectorRegistry,
    settings: Central,
    program: str,
    audit: Audit,
) -> RestoreWatch:
    file = KnownFile(Path(settings.lineage_file) if settings.lineage_file else None)
    return RestoreWatch(kube, clock, registry, program, file, audit, settings.namespace)


def _audit(settings: Central, registry: CollectorRegistry, clock: SystemClock) -> Audit:
    return opened(settings.audit_file, registry, clock.now) if settings.audit_file else SILENT


def _election(kube: Kube, settings: Central, program: str) -> LeaderElection:
    ttl = settings.lease_seconds
    return LeaderElection(
        kube,
        settings.namespace,
        f"kubenode-{program}",
        new_identity(socket.gethostname()),
        ttl=ttl,
        deadline=ttl * 2 / 3,
        retry=ttl * 2 / 15,
    )
