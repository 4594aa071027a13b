"""`kubenode run machine`: the Machine operator, alone or within `kubenode run all`."""

import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

from defender.client import Permits
from kubenode.cli.all_settings import EverythingFlags
from kubenode.cli.cluster import require_crds
from kubenode.cli.exits import explained, run
from kubenode.cli.machine_provision import provisioned
from kubenode.cli.machine_settings import MachineFlags, PrometheusFlags
from kubenode.cli.permit_client import checked_client, defender_client
from kubenode.cli.program import Flags, ProgramContext, standing
from kubenode.cli.providers_file import check_file
from kubenode.cli.setting_flags import load_program
from kubenode.providers.class_configs import config_problems
from kubenode.runtime.kube.errors import NotFound
from kubenode.runtime.process import Part
from machine.certificates.wire import BASE as CERTIFICATES
from machine.ground import MachineSettings
from machine.operator import MachineOperator
from machine.site_settings import Provisioning
from machine.webhook.webhook import MachineWebhook, MachineWebhookSettings

log = logging.getLogger(__name__)

MACHINES = frozenset(
    {
        "machines",
        "machineclasses",
        "machinesets",
        "machinecomponents",
        "machinecomponentsets",
        "nodeclasses",
        "nodesets",
        "permits",
        "remedyoperationjobs",
    }
)


def machine(flags: Flags) -> None:
    with explained():
        settings = load_program(MachineFlags, flags)
        checked_client(settings)
        check_file(settings.providers_file)
    run(_machine(settings))


async def _machine(settings: MachineFlags) -> None:
    async with standing(settings, "machine") as ground:
        await require_crds(ground.kube, MACHINES)
        permits = defender_client(settings)
        try:
            async with provisioned(settings, ground, needed=True) as provisioning:
                operator = operator_on(ground, permits, settings, provisioning)
                with _admission(operator, settings.webhook) as admission:
                    await ground.serve(operator.parts, [*operator.ground, *admission])
        finally:
            await permits.close()


@contextmanager
def _admission(
    operator: MachineOperator, settings: MachineWebhookSettings | None
) -> Iterator[Sequence[Part]]:
    """Yield the parts of the webhook, none without settings. Followers answer too."""
    if settings is None:
        yield ()
        return
    webhook = MachineWebhook(operator.grounds, config_problems, settings)
    try:
        yield webhook.parts
    finally:
        webhook.close()


def operator_on(
    ground: ProgramContext, permits: Permits, settings: PrometheusFlags, provisioning: Provisioning
) -> MachineOperator:
    operator = MachineOperator(
        ground.kube,
        ground.fence,
        ground.clock,
        ground.metrics.registry,
        MachineSettings(prometheus=settings.prometheus_url),
        runtime=ground.metrics,
        informer=ground.informers,
        audit=ground.audit,
        permits=permits,
        provisioning=provisioning,
        restored=ground.frozen,
    )
    ground.health.add_check("machine", lambda: _ready(operator))
    return operator


@asynccontextmanager
async def operator_if_served(
    ground: ProgramContext, permits: Permits, settings: EverythingFlags
) -> AsyncIterator[MachineOperator | None]:
    """Yield an operator for `kubenode run all`; None if the API server serves no certificate
    requests.
    """
    try:
        await ground.kube.get(CERTIFICATES)
    except NotFound:
        log.info("no Machines are looked after: the API server serves no certificates.k8s.io")
        yield None
        return
    await require_crds(ground.kube, MACHINES)
    async with provisioned(settings, ground, needed=False) as provisioning:
        yield operator_on(ground, permits, settings, provisioning)


def _ready(operator: MachineOperator) -> str:
    return "" if operator.ready() else "caches of Machines and what belongs to them are not current"
