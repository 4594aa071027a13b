"""Builds the metadata detector if the settings name a cloud and an operator."""

from agent.detectors.metadata.delivery import HostDoctor
from agent.detectors.metadata.settings import Metadata
from agent.detectors.metadata.watcher import MetadataWatcher
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.transport import Transport


def detectors(
    given: Metadata, operator: Transport | None, agent: str, clock: Clock
) -> list[MetadataWatcher]:
    if not given.cloud or operator is None:
        return []
    return [MetadataWatcher(given, HostDoctor(operator, agent), clock)]
