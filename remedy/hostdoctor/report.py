"""One external event as parsers return it, in the same form for all sources. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kubenode.api.v1alpha1.hostevent import HostEventClass, HostEventPhase, HostEventSource
from kubenode.api.v1alpha1.noderemedier import Severity


class ParseError(ValueError):
    """The input does not have the form of its transport; the text names the field, its value and
    the fix.
    """


@dataclass(frozen=True, slots=True)
class ReportedHost:
    """Identifiers of a machine from its source; the first that resolves to a Node counts, in this
    order.

    provider_id: as in a Node: `aws:///eu-1a/i-0abc`
    instance: the cloud's own ID: `i-0abc`, `i-bp1...`, an Azure VM's name or resource ID
    names: node names, hostnames, `instance` labels with or without port
    addresses: IP addresses
    """

    provider_id: str = ""
    instance: str = ""
    names: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reported:
    """One event of one machine as its source reports it now. An event of five machines becomes
    five.

    external_id: the source's own ID, without the machine; the same for each report of one event
    phase: as the source says; None: it is active, from `not_before` on if that is given
    host: None: about no machine (a cluster-wide alert); such an event never repairs a node
    silent: the source does not report the end: the event ends when a complete list lacks it
    advisory: a hint that may have no consequence; it ends by itself after an hour (F09)
    """

    source: HostEventSource
    external_id: str
    class_: HostEventClass
    host: ReportedHost | None
    phase: HostEventPhase | None = None
    severity: Severity = Severity.WARNING
    not_before: datetime | None = None
    not_after: datetime | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    message: str = ""
    silent: bool = False
    advisory: bool = False


@dataclass(frozen=True, slots=True)
class ReportedEvents:
    """Result of one delivery or one read of a list.

    scope: the list that was read: `azure:/subscriptions/...`, `alertmanager`; "" for a single
        message
    complete: the list is complete: events of `scope` that it lacks are over
    ignored: parts that are not relevant, a sentence each, for the counters
    """

    events: tuple[Reported, ...]
    scope: str = ""
    complete: bool = False
    ignored: tuple[str, ...] = ()
