"""`kubenode run all`: Remedy operator, Kube Defender and Machine operator in one process."""

from kubenode.cli.all_settings import EverythingFlags
from kubenode.cli.cluster import require_engine
from kubenode.cli.defender_frontends import checked, doors
from kubenode.cli.exits import explained, run
from kubenode.cli.host_doctor import checked_host_doctor
from kubenode.cli.program import Flags, standing
from kubenode.cli.providers_file import check_file
from kubenode.cli.run_defender import build_defender
from kubenode.cli.run_machine import operator_if_served
from kubenode.cli.run_remedy import operate_remedy
from kubenode.cli.setting_flags import load_program


def everything(flags: Flags) -> None:
    with explained():
        settings = load_program(EverythingFlags, flags)
        checked(settings)
        checked_host_doctor(settings)
        check_file(settings.providers_file)
    run(_everything(settings))


async def _everything(settings: EverythingFlags) -> None:
    require_engine()
    async with standing(settings, "all") as ground:
        service = build_defender(ground)
        opened = doors(service, ground.kube, ground.clock, ground.metrics.registry, settings)
        parts, below = [*service.parts], [*service.ground, *opened.parts]
        async with operator_if_served(ground, service, settings) as machines:
            if machines is not None:
                parts, below = [*parts, *machines.parts], [*below, *machines.ground]
            await operate_remedy(ground, service, settings, parts, below)
