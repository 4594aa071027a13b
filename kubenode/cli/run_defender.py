"""`kubenode run defender`: Kube Defender, alone or within `kubenode run all`."""

import ipaddress

from defender.replicas.charge.assembly import Shares
from defender.server.endpoints import EndpointPublisher
from defender.service import Defender
from kubenode.cli.defender_frontends import checked, doors
from kubenode.cli.defender_settings import DefenderFlags
from kubenode.cli.exits import explained, run
from kubenode.cli.program import Flags, ProgramContext, standing
from kubenode.cli.redis_flags import sharing
from kubenode.cli.setting_flags import load_program
from kubenode.runtime.process import Part


def defender(flags: Flags) -> None:
    with explained():
        settings = load_program(DefenderFlags, flags)
        checked(settings)
    run(_defender(settings))


async def _defender(settings: DefenderFlags) -> None:
    async with (
        standing(settings, "defender") as ground,
        sharing(settings, ground.kube, ground.lease_kube, ground.clock) as shares,
    ):
        service = build_defender(ground, shares)
        opened = doors(service, ground.kube, ground.clock, ground.metrics.registry, settings)
        # A follower listens too: it refuses, because it does not hold the lease.
        parts = [*service.parts, *_endpoints(ground, settings)]
        await ground.serve(parts, [*service.ground, *opened.parts])


def _endpoints(ground: ProgramContext, settings: DefenderFlags) -> list[Part]:
    if settings.leader_address is None:
        return []
    address = ipaddress.ip_address(settings.leader_address)
    return [EndpointPublisher(ground.kube, ground.clock, ground.fence, address, settings.namespace)]


def build_defender(ground: ProgramContext, shares: Shares | None = None) -> Defender:
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
