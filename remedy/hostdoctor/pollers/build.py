"""Builds the pollers of all configured sources."""

from prometheus_client import CollectorRegistry

from kubenode.providers.events import Sources
from kubenode.runtime.clock import Clock
from kubenode.runtime.process import Part
from remedy.hostdoctor.desk import HostEventService
from remedy.hostdoctor.pollers.concern import about_us
from remedy.hostdoctor.pollers.metrics import PollerMetrics
from remedy.hostdoctor.pollers.poller import ListPoller, QueuePoller
from remedy.hostdoctor.pollers.schedule import Pollers


def event_pollers(
    sources: Sources, desk: HostEventService, clock: Clock, registry: CollectorRegistry
) -> list[Part]:
    """Return the pollers, which must run on the leader only; empty if no source is configured."""
    if not sources:
        return []
    metrics, ours = PollerMetrics(registry), about_us(desk)
    lists = [ListPoller(source, desk, ours, clock, metrics) for source in sources.lists]
    queues = [QueuePoller(source, desk, ours, clock, metrics) for source in sources.queues]
    return [Pollers([*lists, *queues], clock)]
