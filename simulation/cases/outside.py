"""Builds the deliveries of a case to Host Doctor: alerts and cloud events in their sources' format.

Pure. An alert becomes the body of Alertmanager's webhook. Events of the metadata service come from
the agent of the case's node, all others from the source itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1.hostevent import HostEventClass, HostEventPhase, HostEventSource
from remedy.hostdoctor.parsers import FROM_AGENTS, PARSERS, alibaba, aws_imds, azure_imds
from remedy.hostdoctor.report import ParseError, Reported, ReportedEvents, ReportedHost
from simulation.cases.form import AlertSignal, Case, HostEventSignal, OpenHostEvent
from simulation.replay.timeline import Entry, entry

SOURCES = {
    "aws": HostEventSource.AWS,
    "azure": HostEventSource.AZURE,
    "gcp": HostEventSource.GCP,
    "alibaba": HostEventSource.ALIBABA_CLOUD,
}
CLASSES = {"aws": aws_imds.CLASSES, "azure": azure_imds.CLASSES, "alibaba": alibaba.CLASSES}
ACTIVE = frozenset({"started", "active", "executing"})
PROVIDER_IDS = {
    "aws": "aws:///zone-a/{}",
    "azure": "azure:///subscriptions/s/resourceGroups/g/providers/Microsoft.Compute"
    "/virtualMachines/{}",
    "gcp": "gce://project/zone-a/{}",
    "alibaba": "region-a.{}",
}
"""Formats in which the clouds' controllers write provider IDs into Nodes."""
ANNOUNCED = timedelta(hours=1)
"""How long before `now` an event was announced that is known from before."""
BEGAN = timedelta(minutes=10)
NEVER = "0001-01-01T00:00:00Z"


def entries(case: Case) -> Iterator[Entry]:
    for signal in case.signals:
        at = case.now + timedelta(seconds=signal.at_s)
        if isinstance(signal, AlertSignal):
            yield delivered(signal, at)
        elif isinstance(signal, HostEventSignal) and signal.transport in PARSERS:
            delivery = {"transport": signal.transport, "payload": signal.payload}
            yield entry(at=at, node=_teller(case, signal.transport), delivery=delivery)


def delivered(signal: AlertSignal, at: datetime) -> Entry:
    """Return the alert as Alertmanager delivers it."""
    return entry(at=at, delivery={"transport": "alertmanager", "payload": webhook(signal, at)})


def unheard(case: Case) -> bool:
    """Return whether a signal has a format for which Host Doctor has no parser."""
    transports = [s.transport for s in case.signals if isinstance(s, HostEventSignal)]
    return any(transport not in PARSERS for transport in transports)


def webhook(signal: AlertSignal, at: datetime) -> dict[str, Any]:
    """Return the body of the webhook.

    The alert is a group of its own, so it does not affect others.
    """
    firing = signal.status == "firing"
    alert = {
        "status": signal.status,
        "labels": signal.labels,
        "annotations": {},
        "startsAt": format_time(at if firing else at - ANNOUNCED),
        "endsAt": NEVER if firing else format_time(at),
        "generatorURL": "",
    }
    return {
        "version": "4",
        "groupKey": repr(sorted(signal.labels.items())),
        "truncatedAlerts": 0,
        "status": signal.status,
        "receiver": "kubenode",
        "groupLabels": {},
        "commonLabels": signal.labels,
        "commonAnnotations": {},
        "externalURL": "",
        "alerts": [alert],
    }


def provider_id(case: Case) -> str:
    """Return the provider ID of the case's node, in the format of the reporting cloud."""
    instance = case.facts.instance or ""
    clouds = [s.provider for s in case.signals if isinstance(s, HostEventSignal)]
    return PROVIDER_IDS[clouds[0]].format(instance) if instance and clouds else instance


def addresses(case: Case, node: str) -> list[str]:
    """Return the addresses by which alerts name the node."""
    known = case.facts.node_of_instance.items()
    return [_without_port(instance) for instance, name in known if name == node]


def _without_port(instance: str) -> str:
    host, colon, port = instance.rpartition(":")
    return host.strip("[]") if colon and port.isdecimal() else instance


@dataclass(frozen=True, slots=True)
class PriorAnnouncement:
    """Events that Host Doctor received before the case's signals.

    node: the node whose agent reported them, or "".
    """

    at: datetime
    node: str
    transport: str
    reports: ReportedEvents


def announced(case: Case) -> list[PriorAnnouncement]:
    """Return the events that were announced before, as the case says or implies.

    The case says so by an open event of a cloud that reports now. It implies it if an event is
    cancelled before its start.
    """
    announcements: list[PriorAnnouncement] = []
    for signal in case.signals:
        if not isinstance(signal, HostEventSignal):
            continue
        mine = [e for e in case.facts.open_host_events if e.provider == signal.provider]
        for event in mine if not announcements else []:
            announcements += _known(case, signal, event)
        for reported in _called_off(case, signal):
            announcements.append(_before(case, signal, case.now - ANNOUNCED, reported))
    return announcements


def class_of(event: OpenHostEvent) -> HostEventClass | None:
    """Return the class by our name of it or by the cloud's name of the event; None if it is
    unknown.
    """
    if event.type in list(HostEventClass):
        return HostEventClass(event.type)
    return CLASSES.get(event.provider, {}).get(event.type)


def _known(
    case: Case, signal: HostEventSignal, event: OpenHostEvent
) -> Iterator[PriorAnnouncement]:
    class_ = class_of(event)
    if class_ is None:
        return
    began = event.phase.lower() in ACTIVE
    reported = Reported(
        source=SOURCES[event.provider],
        external_id=event.event_id or event.type.lower(),
        class_=class_,
        host=_host(case, signal.transport),
        phase=HostEventPhase.SCHEDULED,
        not_before=case.now - BEGAN if began else case.now + BEGAN,
        silent=True,
    )
    yield _before(case, signal, case.now - ANNOUNCED, reported)
    if began:
        running = replace(reported, phase=HostEventPhase.ACTIVE)
        yield _before(case, signal, case.now - BEGAN, running)


def _parsed(case: Case, signal: HostEventSignal) -> ReportedEvents:
    parser = PARSERS.get(signal.transport)
    try:
        return parser(signal.payload, case.now) if parser is not None else ReportedEvents(())
    except ParseError:
        return ReportedEvents(())


def _called_off(case: Case, signal: HostEventSignal) -> Iterator[Reported]:
    for event in _parsed(case, signal).events:
        off = event.phase is HostEventPhase.CANCELLED
        if off and event.not_before is not None and event.not_before > case.now:
            yield replace(event, phase=HostEventPhase.SCHEDULED)


def _before(
    case: Case, signal: HostEventSignal, at: datetime, reported: Reported
) -> PriorAnnouncement:
    reports = ReportedEvents((reported,), scope=_parsed(case, signal).scope)
    return PriorAnnouncement(at, _teller(case, signal.transport), signal.transport, reports)


def _teller(case: Case, transport: str) -> str:
    return case.node if transport in FROM_AGENTS else ""


def _host(case: Case, transport: str) -> ReportedHost:
    return (
        ReportedHost()
        if transport in FROM_AGENTS
        else ReportedHost(instance=case.facts.instance or "")
    )
