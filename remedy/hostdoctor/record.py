"""Host Doctor's record of a HostEvent beyond the API, in one annotation, so that any replica can
continue where another stopped. Pure.
"""

import hashlib
import re
from dataclasses import replace
from datetime import datetime
from functools import lru_cache

import msgspec

from kubenode.api.v1alpha1.hostevent import HostEvent, HostEventClass, HostEventSource
from remedy.hostdoctor.nodes import instance_of, tokens_of
from remedy.hostdoctor.report import Reported, ReportedHost

ANNOTATION = "kubenode.io/told"
LONGEST_SCOPE, LONGEST_HINT, MOST_HINTS, MOST_SCOPES = 512, 256, 16, 8
AGENT_SCOPE = "agent:"
"""Prefix of the scope of reports from an agent about its own machine."""
LONGEST_ID = 512
MOST_ATTRIBUTES, LONGEST_ATTRIBUTE, LONGEST_MESSAGE = 32, 1024, 4096
FIRST = ("alertname", "kubenode_about", "severity", "node", "instance", "job")
"""Attributes that are kept first if there are too many."""
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
DIGEST, MACHINE_LENGTH = 10, 40


class EventRecord(msgspec.Struct, omit_defaults=True, frozen=True):
    """Content of the annotation.

    scopes: lists that contain the event, the first one to report it first; empty: messages report
        it
    silent: it ends when complete lists of all its scopes lack it
    advisory: it ends by itself
    begins: it becomes Active at `notBefore` without a further report
    provider_id, instance, names: identifiers of the machine as the source reports them
    """

    scopes: tuple[str, ...] = ()
    silent: bool = False
    advisory: bool = False
    begins: bool = False
    provider_id: str = ""
    instance: str = ""
    names: tuple[str, ...] = ()

    @property
    def scope(self) -> str:
        """The scope that determines the content if several contain the event; "" for none."""
        return self.scopes[0] if self.scopes else ""

    @property
    def of_agents(self) -> bool:
        """Whether only agents on the host itself can end the event."""
        return self.silent and all(scope.startswith(AGENT_SCOPE) for scope in self.scopes)

    @property
    def host(self) -> ReportedHost | None:
        """The machine as the source reports it; None for none."""
        if not (self.provider_id or self.instance or self.names):
            return None
        return ReportedHost(self.provider_id, self.instance, self.names)

    def encoded(self) -> str:
        return msgspec.json.encode(self).decode()


_decode = msgspec.json.Decoder(EventRecord).decode


def note_of(event: HostEvent) -> EventRecord:
    """Return the record of a HostEvent; an empty one for an object that somebody else created."""
    return _noted(event.metadata.annotations.get(ANNOTATION, "{}"))


@lru_cache(maxsize=4096)
def _noted(text: str) -> EventRecord:
    try:
        return _decode(text)
    except msgspec.DecodeError:
        return EventRecord()


def note(report: Reported, scope: str, before: EventRecord | None = None) -> EventRecord:
    """Return the record after a report. A later reporter adds a scope, and changes nothing else of
    `before`.
    """
    scopes = (scope[:LONGEST_SCOPE],) if report.silent and scope else ()
    if before is not None and before != EventRecord():
        more = tuple(each for each in scopes if each not in before.scopes)
        return msgspec.structs.replace(
            before,
            scopes=(*before.scopes, *more)[:MOST_SCOPES],
            silent=before.silent or report.silent,
        )
    host = report.host or ReportedHost()
    names = (*host.names, *host.addresses)[:MOST_HINTS]
    return EventRecord(
        scopes=scopes,
        silent=report.silent,
        advisory=report.advisory,
        begins=report.phase is None,
        provider_id=host.provider_id[:LONGEST_HINT],
        instance=host.instance[:LONGEST_HINT],
        names=tuple(name[:LONGEST_HINT] for name in names),
    )


def is_alert(report: Reported) -> bool:
    """Report whether the event is an Alertmanager alert."""
    return report.source is HostEventSource.ALERTMANAGER and report.class_ is HostEventClass.ALERT


def fitted(report: Reported) -> Reported:
    """Cut the report to what the API accepts and stores. An ID is hashed, not only cut: two events
    would become one.

    Times are kept in milliseconds: with more precision every repetition would look like a change.
    """
    ident = report.external_id
    if len(ident) > LONGEST_ID:
        digest = hashlib.sha256(ident.encode(errors="replace")).hexdigest()
        ident = f"{ident[: LONGEST_ID - 65]}/{digest}"
    keys = [key for key in FIRST if key in report.attributes]
    keys += [key for key in report.attributes if key not in FIRST]
    attributes = {k: report.attributes[k][:LONGEST_ATTRIBUTE] for k in keys[:MOST_ATTRIBUTES]}
    return replace(
        report,
        external_id=ident,
        attributes=attributes,
        message=report.message[:LONGEST_MESSAGE],
        not_before=_to_milliseconds(report.not_before),
        not_after=_to_milliseconds(report.not_after),
    )


def _to_milliseconds(at: datetime | None) -> datetime | None:
    return None if at is None else at.replace(microsecond=at.microsecond // 1000 * 1000)


def machine_of(host: ReportedHost | None) -> str:
    """Return the machine's most reliable identifier from the source; "" for none.

    It is not the Node's name: the event stays the same before and after the Node exists.
    """
    if host is None:
        return ""
    if cloud := host.provider_id or host.instance:
        return instance_of(cloud)
    return next((token.value for token in tokens_of(host)), "")


def name_of(report: Reported) -> str:
    """Return the object name, the same for every report of this event on this machine."""
    machine = machine_of(report.host)
    whole = "\0".join((report.source, report.external_id, machine))
    digest = hashlib.sha256(whole.encode(errors="replace")).hexdigest()[:DIGEST]
    slug = _NOT_IN_NAMES.sub("-", machine.lower())[:MACHINE_LENGTH].strip("-")
    return "-".join(part for part in (report.source.lower(), slug, digest) if part)
