"""`kubenode run remedy|defender|all`: reads settings, checks the cluster, and runs the parts.

Before the first part starts, everything that a person can fix is checked: settings, kubeconfig,
server, credentials, CRDs, namespace, rule engine. Parts that decide and act run only on the leader.
Parts that only follow the API server run on every replica.
"""

import ipaddress
import socket
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry

from defender.client import HttpPermits, Permits
from defender.replicas.charge.assembly import Shares
from defender.server.endpoints import EndpointPublisher
from defender.service import Defender
from kubenode.cli.all_settings import EverythingFlags
from kubenode.cli.cluster import hello, require_crds, require_engine, require_namespace
from kubenode.cli.defender_settings import ApiFlags, DefenderFlags
from kubenode.cli.engine import engines
from kubenode.cli.exits import explained, run
from kubenode.cli.host_doctor import checked_host_doctor, host_doctor_parts
from kubenode.cli.permit_client import checked_client
from kubenode.cli.providers_file import check_file, listened, provided
from kubenode.cli.receivers_file import received
from kubenode.cli.redis_flags import sharing
from kubenode.cli.remedy_settings import RemedyFlags, WebhookFlags
from kubenode.cli.setting_flags import load_program
from kubenode.cli.settings import AskerFlags, Central
from kubenode.cli.stream import stream_parts
from kubenode.cli.traces import traced
from kubenode.runtime.audit import SILENT, Audit, AuditLog, opened
from kubenode.runtime.clock import Clock, SystemClock
from kubenode.runtime.controller.controller import Controller
from kubenode.runtime.controller.factory import build_controller
from kubenode.runtime.controller.queue import WorkQueue
from kubenode.runtime.fence import AlwaysLeader, Fence
from kubenode.runtime.garbage import Filling
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
from remedy.hostdoctor.pollers.build import event_pollers
from remedy.operator import RemedyOperator
from remedy.registry.revisions import CONTROLLER, Revisions
from remedy.registry.sizes import FleetSizeLimit
from remedy.webhook.webhook import CachedFleet, RuleWebhook, RuleWebhookSettings

if TYPE_CHECKING:
    from kubenode.cli.defender_frontends import DefenderFrontends

Flags = Mapping[str, Any]

LEASE_TIMEOUT = 5.0
KEEP_SECONDS = 0.2
"""Delay before a loaded rule is stored as a revision, so that several changes are stored as one."""


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


def everything(flags: Flags) -> None:
    with explained():
        settings = load_program(EverythingFlags, flags)
        _checked(settings)
        checked_host_doctor(settings)
        check_file(settings.providers_file)
    run(_everything(settings))


def remedy(flags: Flags) -> None:
    with explained():
        settings = load_program(RemedyFlags, flags)
        checked_client(settings)
        checked_host_doctor(settings)
        check_file(settings.providers_file)
    run(_remedy(settings))


def defender(flags: Flags) -> None:
    with explained():
        settings = load_program(DefenderFlags, flags)
        _checked(settings)
    run(_defender(settings))


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


async def _remedy(settings: RemedyFlags) -> None:
    require_engine()
    async with standing(settings, "remedy") as ground:
        permits = defender_client(settings)
        try:
            await _operate(ground, permits, settings)
        finally:
            await permits.close()


def defender_client(settings: AskerFlags) -> HttpPermits:
    token, tls = settings.defender_token_file, settings.defender_tls
    return HttpPermits(settings.defender_urls, token, tls=tls)


async def _defender(settings: DefenderFlags) -> None:
    async with (
        standing(settings, "defender") as ground,
        sharing(settings, ground.kube, ground.lease_kube, ground.clock) as shares,
    ):
        service = _service(ground, shares)
        opened = _doors(service, ground, settings)
        # A follower listens too: it refuses, because it does not hold the lease.
        parts = [*service.parts, *_endpoints(ground, settings)]
        await ground.serve(parts, [*service.ground, *opened.parts])


def _endpoints(ground: ProgramContext, settings: DefenderFlags) -> list[Part]:
    if settings.leader_address is None:
        return []
    address = ipaddress.ip_address(settings.leader_address)
    return [EndpointPublisher(ground.kube, ground.clock, ground.fence, address, settings.namespace)]


async def _everything(settings: EverythingFlags) -> None:
    from kubenode.cli.run_machine import operator_if_served  # it imports this module

    require_engine()
    async with standing(settings, "all") as ground:
        service = _service(ground)
        opened = _doors(service, ground, settings)
        parts, below = [*service.parts], [*service.ground, *opened.parts]
        async with operator_if_served(ground, service, settings) as machines:
            if machines is not None:
                parts, below = [*parts, *machines.parts], [*below, *machines.ground]
            await _operate(ground, service, settings, parts, below)


def _checked(settings: ApiFlags) -> None:
    from kubenode.cli.defender_frontends import (
        checked,  # web servers: a remedy operator alone does not need them
    )

    checked(settings)


def _doors(service: Defender, ground: ProgramContext, settings: ApiFlags) -> "DefenderFrontends":
    from kubenode.cli.defender_frontends import doors

    return doors(service, ground.kube, ground.clock, ground.metrics.registry, settings)


def _service(ground: ProgramContext, shares: Shares | None = None) -> Defender:
    service = Defender(
        ground.kube,
        ground.fence,
        ground.clock,
        ground.metrics.registry,
        runtime=ground.metrics,
        informer=ground.informers,
        charge=shares.charge if shares is not None else None,
        fleet=shares.fleet if shares is not None else None,
        audit=ground.audit,
        restored=ground.restored_or_unverified,
    )
    ground.health.add_check("defender", service.well)
    return service


async def _operate(
    ground: ProgramContext,
    permits: Permits,
    settings: WebhookFlags,
    more: Sequence[Part] = (),
    below: Sequence[Part] = (),
) -> None:
    """Run a remedy operator.

    more: further parts that run on the leader.
    below: further parts that run on every replica.
    """
    registry = ground.metrics.registry
    outside = received(settings.receivers_file)
    async with (
        provided(settings.providers_file, ground.clock, registry) as providers,
        listened(settings.providers_file, ground.clock) as sources,
    ):
        with engines() as diagnoser:
            operator = RemedyOperator(
                ground.kube,
                permits,
                diagnoser,
                ground.fence,
                ground.clock,
                registry,
                settings.remedy,
                runtime=ground.metrics,
                informer=ground.informers,
                audit=ground.audit,
                providers=providers,
                outside=outside,
                frozen=ground.frozen,
                restored=ground.restored_or_unverified,
                unverified=ground.unverified,
            )
            ground.health.add_check("remedy", lambda: _ready(operator))
            pollers = event_pollers(sources, operator.desk, ground.clock, registry)
            threads = ThreadPoolExecutor(1, thread_name_prefix="sizes")
            operator.rules.size_limit = FleetSizeLimit(
                CachedFleet(operator), ground.clock, threads, settings.max_matching
            )
            stream = stream_parts(operator, ground, settings)
            revisions = _revisions(operator, ground)
            parts = [*more, *operator.parts, revisions, *pollers, *stream.parts]
            doctor = host_doctor_parts(operator, ground.kube, ground.clock, settings, ground.audit)
            try:
                with _admission(operator, ground, settings.webhook) as admission:
                    filling = Filling(operator.settled, ground.clock)
                    served = [*admission, *doctor, *stream.ground]
                    under = [*below, *operator.ground, *served, filling]
                    await ground.serve(parts, under)
            finally:
                threads.shutdown(wait=False, cancel_futures=True)
                operator.close()


def _revisions(operator: RemedyOperator, ground: ProgramContext) -> Controller:
    """Return the controller that stores the last good version of each rule in our namespace."""
    rules, namespace = operator.rules, ground.settings.namespace
    revisions = Revisions(ground.kube, namespace, ground.fence, rules.good)
    rules.remember = revisions.read
    queue: WorkQueue[str] = WorkQueue(ground.clock)
    rules.on_standing.append(lambda name: queue.add_after(name, KEEP_SECONDS))
    return build_controller(
        CONTROLLER,
        revisions.reconcile,
        clock=ground.clock,
        fence=ground.fence,
        metrics=ground.metrics,
        workers=4,
        queue=queue,
    )


@contextmanager
def _admission(
    operator: RemedyOperator, ground: ProgramContext, settings: RuleWebhookSettings | None
) -> Iterator[Sequence[Part]]:
    """Yield the parts of the webhook, none without settings. Followers answer too."""
    if settings is None:
        yield ()
        return
    webhook = RuleWebhook(operator, ground.kube, ground.clock, ground.metrics.registry, settings)
    try:
        yield webhook.parts
    finally:
        webhook.close()


def _ready(operator: RemedyOperator) -> str:
    return "" if operator.well() else "caches are not current or the rules are not loaded"
