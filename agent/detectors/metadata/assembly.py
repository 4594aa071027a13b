"""The detector of an agent's settings, if they name a cloud and whom to tell."""

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
