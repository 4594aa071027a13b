"""The pollers of all sources that are configured."""

from prometheus_client import CollectorRegistry

from kubenode.providers.events import Sources
from kubenode.runtime.clock import Clock
from kubenode.runtime.process import Part
from remedy.hostdoctor.desk import Desk
from remedy.hostdoctor.nodes import Why
from remedy.hostdoctor.pollers.concern import Ours
from remedy.hostdoctor.pollers.metrics import Metrics
from remedy.hostdoctor.pollers.poller import ListPoller, QueuePoller
from remedy.hostdoctor.pollers.schedule import Pollers
from remedy.hostdoctor.record import fitted, name_of
from remedy.hostdoctor.reported import Reported

NOT_OURS = (Why.NO_HOST, Why.NOT_FOUND)


def event_pollers(
    sources: Sources, desk: Desk, clock: Clock, registry: CollectorRegistry
) -> list[Part]:
    """Empty where nothing is configured. To run in the leader only."""
    if not sources:
        return []
    metrics, ours = Metrics(registry), about_us(desk)
    lists = [ListPoller(source, desk, ours, clock, metrics) for source in sources.lists]
    queues = [QueuePoller(source, desk, ours, clock, metrics) for source in sources.queues]
    return [Pollers([*lists, *queues], clock)]


def about_us(desk: Desk) -> Ours:
    """Of a node of ours, and not the end of what we never heard of: a history tells of days."""

    def ours(event: Reported) -> bool:
        if event.phase is not None and not event.phase.open:
            return desk.writer.known(name_of(fitted(event))) is not None
        return desk.index.resolve(event.host).why not in NOT_OURS

    return ours
