"""Parses CloudEvents of type `io.kubenode.hostevent`, the generic input for custom senders.

    {"specversion": "1.0", "id": "42", "source": "/dc1/pdu", "type": "io.kubenode.hostevent",
     "subject": "worker-17",
     "data": {"class": "Maintenance", "phase": "Scheduled", "severity": "Warning",
              "externalID": "work-order-7", "notBefore": "2026-01-10T08:00:00Z",
              "notAfter": "...", "message": "...", "advisory": false, "attributes": {},
              "host": {"providerID": "", "instance": "", "names": [], "addresses": []}}}

Every message has its own id, so `externalID` identifies the event; without it the message is the
event. `subject` names the host if `host` does not. Other types are ignored.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

from cloudevents.core.exceptions import CloudEventValidationError
from cloudevents.core.v1.event import CloudEvent

from kubenode.api.v1alpha1.hostevent import HostEventClass, HostEventPhase, HostEventSource
from kubenode.api.v1alpha1.noderemedier import Severity
from remedy.hostdoctor.parsers import azure_event_grid
from remedy.hostdoctor.parsers.fields import (
    Fields,
    fields,
    items,
    required,
    text,
    texts,
    time,
    under,
    wrong,
)
from remedy.hostdoctor.report import ParseError, Reported, ReportedEvents, ReportedHost

TYPE = "io.kubenode.hostevent"
MOST_EVENTS = 10_000
MOST_NAMES = 16
_CONTENT = ("data", "data_base64")
_Word = TypeVar("_Word", bound=StrEnum)


def parse(payload: Any, now: datetime) -> ReportedEvents:
    """Parse one CloudEvent in its JSON form, or a batch of them. Raises ParseError."""
    batch = isinstance(payload, list)
    if not batch and str(fields(payload, "").get("type", "")).startswith(azure_event_grid.TYPES):
        return azure_event_grid.parse(payload, now)
    given = items(payload, "") if batch else [payload]
    if len(given) > MOST_EVENTS:
        raise ParseError(f"body: has {len(given)} events; at most {MOST_EVENTS} are taken")
    events: list[Reported] = []
    ignored: list[str] = []
    for n, each in enumerate(given):
        path = f"[{n}]" if batch else ""
        try:
            event = checked(fields(each, path), path)
        except ParseError as error:
            if not batch:
                raise
            ignored.append(str(error))
            continue
        if event.get("type") != TYPE:
            ignored.append(f"{under(path, 'type')}: {event.get('type')!s:.100} is of no concern")
            continue
        try:
            events.append(_reported(event, path))
        except ParseError as error:
            if not batch:
                raise
            ignored.append(str(error))
    return ReportedEvents(tuple(events), ignored=tuple(ignored))


def checked(event: Fields, path: str) -> Fields:
    """Return the event if it is valid by CloudEvents 1.0. Raises ParseError."""
    attributes = {key: value for key, value in event.items() if key not in _CONTENT}
    if "time" in attributes:
        attributes["time"] = time(event, "time", path)
    try:
        CloudEvent({k: v for k, v in attributes.items() if v is not None}, None)
    except CloudEventValidationError as error:
        name, problems = next(iter(error.errors.items()))
        raise ParseError(f"{under(path, name)}: {problems[0]}") from None
    return event


def _reported(event: Fields, path: str) -> Reported:
    where = under(path, "data")
    data = fields(event.get("data"), where)
    phase = text(data, "phase", where)
    severity = text(data, "severity", where)
    ident = text(data, "externalID", where) or required(event, "id", path)
    advisory = data.get("advisory", False)
    if not isinstance(advisory, bool):
        raise wrong(under(where, "advisory"), advisory, "true or false")
    return Reported(
        source=HostEventSource.WEBHOOK,
        external_id=f"{required(event, 'source', path)}/{ident}",
        class_=_word(HostEventClass, required(data, "class", where), under(where, "class")),
        host=_host(data, event, where),
        phase=_word(HostEventPhase, phase, under(where, "phase")) if phase else None,
        severity=_word(Severity, severity, under(where, "severity"))
        if severity
        else Severity.WARNING,
        not_before=time(data, "notBefore", where),
        not_after=time(data, "notAfter", where),
        attributes=texts(data, "attributes", where),
        message=text(data, "message", where),
        advisory=advisory,
    )


def _host(data: Fields, event: Fields, path: str) -> ReportedHost | None:
    where = under(path, "host")
    given: Fields = fields(data.get("host") or {}, where)
    host = ReportedHost(
        provider_id=text(given, "providerID", where),
        instance=text(given, "instance", where),
        names=_names(given, "names", where),
        addresses=_names(given, "addresses", where),
    )
    if host != ReportedHost():
        return host
    subject = text(event, "subject")
    return ReportedHost(names=(subject,)) if subject else None


def _names(of: Mapping[str, Any], name: str, path: str) -> tuple[str, ...]:
    where = under(path, name)
    entries = items(of.get(name) or [], where)
    if len(entries) > MOST_NAMES:
        raise wrong(where, f"{len(entries)} entries", f"at most {MOST_NAMES}")
    for n, each in enumerate(entries):
        if not isinstance(each, str):
            raise wrong(f"{where}[{n}]", each, "text")
    return tuple(each for each in entries if each)


def _word(kind: type[_Word], value: str, path: str) -> _Word:
    try:
        return kind(value)
    except ValueError:
        choices = ", ".join(str(word) for word in kind)
        raise wrong(path, value, f"one of {choices}") from None
