"""Prepares the creation of machines for programs that run the Machine operator."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kubenode.cli.exits import Refusal
from kubenode.cli.machine_settings import MachineMakingFlags
from kubenode.cli.machine_tokens import authority, server_url
from kubenode.cli.program import ProgramContext
from kubenode.cli.providers_file import made_by
from kubenode.providers.instances import InstanceProviders
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import KubeError
from machine.hostimport.join_settings import NO_DOWNLOAD, Download
from machine.site_settings import Provisioning

log = logging.getLogger(__name__)


@asynccontextmanager
async def provisioned(
    settings: MachineMakingFlags, ground: ProgramContext, *, needed: bool
) -> AsyncIterator[Provisioning]:
    """Yield the providers that make machines and what new hosts must know.

    Without a provider that makes machines, nothing is read from the cluster.

    needed: raise Refusal if the data for new hosts cannot be read; else no machines are made.
    """
    registry = ground.metrics.registry
    async with made_by(settings.providers_file, ground.clock, registry) as instances:
        yield await _site(settings, ground.kube, instances, needed=needed)


async def _site(
    settings: MachineMakingFlags, kube: Kube, instances: InstanceProviders, *, needed: bool
) -> Provisioning:
    if not instances.all:
        return Provisioning()
    try:
        return Provisioning(
            instances,
            settings.cluster or await _uid(kube),
            await server_url(settings.join_server, settings.kubeconfig, settings.context),
            await authority(kube),
            package(settings.agent_package),
        )
    except (Refusal, KubeError) as error:
        if needed:
            raise Refusal(f"no machine can be made: {error}") from error
        log.warning("no machines are made", extra={"error": str(error)})
        return Provisioning()


def package(text: str) -> Download:
    """Parse `URL#sha256=DIGEST`; "" means no download. The settings have checked the form."""
    url, _, digest = text.partition("#sha256=")
    return Download(url, digest) if text else NO_DOWNLOAD


async def _uid(kube: Kube) -> str:
    """Return the UID of namespace kube-system, which names the cluster. Raises Refusal."""
    try:
        namespace = await kube.get(paths.namespace("kube-system"))
    except KubeError as error:
        raise Refusal(
            "the uid of namespace kube-system, which names this cluster on its machines, cannot be"
            f" read: {error}; name the cluster with --cluster"
        ) from error
    return str(namespace["metadata"]["uid"])
