"""`kubenode run autoscaler-provider`: MachineSets as node groups of Cluster Autoscaler."""

from dataclasses import replace
from importlib import import_module

from defender.client import Permits
from kubenode.cli.autoscaler_settings import AutoscalerFlags
from kubenode.cli.cluster import require_crds
from kubenode.cli.exits import explained, run
from kubenode.cli.permit_client import checked_client, defender_client, require_files
from kubenode.cli.program import Flags, ProgramContext, standing
from kubenode.cli.setting_flags import load_program
from kubenode.cli.settings import local
from kubenode.runtime.process import CannotStart

KINDS = frozenset({"machines", "machineclasses", "machinesets"})
FILES = ("autoscaler_cert_file", "autoscaler_key_file", "autoscaler_ca_file")


def autoscaler_provider(flags: Flags) -> None:
    with explained():
        require_extra()
        settings = load_program(AutoscalerFlags, flags)
        checked_client(settings)
        check_autoscaler(settings)
    run(_serve(settings))


def require_extra() -> None:
    """Raise CannotStart without the packages of the extra."""
    try:
        for module in ("grpc", "google.protobuf"):
            import_module(module)
    except ImportError as error:
        raise CannotStart(
            "the autoscaler provider needs the extra kubenode[autoscaler], which is not installed;"
            " install it with pip install 'kubenode[autoscaler]'"
        ) from error


def check_autoscaler(settings: AutoscalerFlags) -> None:
    """Raise CannotStart for contradictory settings, unreadable files and open ports."""
    given = [name for name in FILES if getattr(settings, name) is not None]
    if given and len(given) < len(FILES):
        raise CannotStart(
            "--autoscaler-cert-file, --autoscaler-key-file and --autoscaler-ca-file belong"
            " together: give all three, or none"
        )
    require_files(settings, FILES)
    if not given and not local(settings.autoscaler_address):
        raise CannotStart(
            f"--autoscaler-address {settings.autoscaler_address}: others than this host reach it,"
            " and could create and delete machines: give --autoscaler-cert-file,"
            " --autoscaler-key-file and --autoscaler-ca-file"
        )


async def _serve(settings: AutoscalerFlags) -> None:
    # All state is in the cluster, so every replica answers: there is no Lease.
    async with standing(replace(settings, no_lease=True), "autoscaler") as ground:
        await require_crds(ground.kube, KINDS)
        permits = defender_client(settings)
        try:
            await _answer(ground, settings, permits)
        finally:
            await permits.close()


async def _answer(ground: ProgramContext, settings: AutoscalerFlags, permits: Permits) -> None:
    from machine.autoscaler.metrics import AutoscalerMetrics
    from machine.autoscaler.nodegroup import NodeGroupError
    from machine.autoscaler.provider import AutoscalerProvider
    from machine.autoscaler.server import AutoscalerServer

    provider = AutoscalerProvider(
        ground.kube,
        ground.clock,
        permits,
        gpu_label=settings.gpu_label,
        audit=ground.audit,
        informer=ground.informers,
    )
    server = AutoscalerServer(
        provider,
        AutoscalerMetrics(ground.metrics.registry),
        settings.autoscaler_address,
        settings.autoscaler_port,
        settings.autoscaler_files,
    )

    def ready() -> str:
        try:
            provider.check_fresh()
        except NodeGroupError as error:
            return str(error)
        return ""

    for informer in provider.informers:
        ground.metrics.informer(informer)
    ground.health.add_check("autoscaler", ready)
    await ground.serve([server], provider.informers)
