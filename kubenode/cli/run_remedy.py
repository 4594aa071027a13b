"""`kubenode run remedy`: the Remedy operator, alone or within `kubenode run all`."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from defender.client import Permits
from kubenode.cli.cluster import require_engine
from kubenode.cli.engine import engines
from kubenode.cli.exits import explained, run
from kubenode.cli.host_doctor import checked_host_doctor, host_doctor_parts
from kubenode.cli.permit_client import checked_client, defender_client
from kubenode.cli.program import Flags, ProgramContext, standing
from kubenode.cli.providers_file import check_file, listened, provided
from kubenode.cli.receivers_file import received
from kubenode.cli.remedy_settings import RemedyFlags, WebhookFlags
from kubenode.cli.setting_flags import load_program
from kubenode.cli.stream import stream_parts
from kubenode.runtime.controller.controller import Controller
from kubenode.runtime.controller.factory import build_controller
from kubenode.runtime.controller.queue import WorkQueue
from kubenode.runtime.garbage import Filling
from kubenode.runtime.process import Part
from remedy.hostdoctor.pollers.build import event_pollers
from remedy.operator import RemedyOperator
from remedy.registry.revisions import CONTROLLER, Revisions
from remedy.registry.sizes import FleetSizeLimit
from remedy.webhook.webhook import CachedFleet, RuleWebhook, RuleWebhookSettings

KEEP_SECONDS = 0.2
"""Delay before a loaded rule is stored as a revision, so that several changes are stored as one."""


def remedy(flags: Flags) -> None:
    with explained():
        settings = load_program(RemedyFlags, flags)
        checked_client(settings)
        checked_host_doctor(settings)
        check_file(settings.providers_file)
    run(_remedy(settings))


async def _remedy(settings: RemedyFlags) -> None:
    require_engine()
    async with standing(settings, "remedy") as ground:
        permits = defender_client(settings)
        try:
            await operate_remedy(ground, permits, settings)
        finally:
            await permits.close()


async def operate_remedy(
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
