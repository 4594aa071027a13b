"""`kubenode run captain`: releases over member clusters. It runs beside the other programs."""

from captain.operator import Captain
from kubenode.cli.captain_settings import CaptainFlags
from kubenode.cli.captain_site import build_site_parts, check_site
from kubenode.cli.cluster import require_crds
from kubenode.cli.exits import explained, run
from kubenode.cli.program import Flags, ProgramContext, standing
from kubenode.cli.setting_flags import load_program

CAPTAIN_KINDS = frozenset({"memberclusters", "releasepipelines", "releases"})


def captain(flags: Flags) -> None:
    with explained():
        settings = load_program(CaptainFlags, flags)
        check_site(settings)
    run(_captain(settings))


async def _captain(settings: CaptainFlags) -> None:
    async with standing(settings, "captain") as ground:
        await require_crds(ground.kube, CAPTAIN_KINDS)
        operator = build_captain(ground, settings)
        try:
            site = build_site_parts(operator, ground.kube, ground.clock, settings)
            await ground.serve(operator.parts, [*operator.ground, *site])
        finally:
            await operator.close()


def build_captain(ground: ProgramContext, settings: CaptainFlags) -> Captain:
    operator = Captain(
        ground.kube,
        ground.fence,
        ground.clock,
        ground.metrics.registry,
        settings.captain,
        runtime=ground.metrics,
        informer=ground.informers,
    )
    ground.health.add_check("captain", lambda: _ready(operator))
    return operator


def _ready(operator: Captain) -> str:
    return (
        ""
        if operator.ready()
        else "caches of MemberClusters, their Secrets, pipelines and releases are not current"
    )
