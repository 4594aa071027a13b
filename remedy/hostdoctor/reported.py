"""What a parser makes of one external event: the same words for all sources. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kubenode.api.v1alpha1.hostevent import HostEventClass, HostEventPhase, HostEventSource
from kubenode.api.v1alpha1.noderemedier import Severity


class ParseError(ValueError):
    """What came is not what the transport promises; the text names field, value and remedy."""


@dataclass(frozen=True, slots=True)
class ReportedHost:
    """Whatever a source says of the machine; the first that resolves to a Node wins, in this order.

    provider_id  as a Node has it: `aws:///eu-1a/i-0abc`
    instance     a cloud's own name: `i-0abc`, `i-bp1...`, an Azure VM's name or resource ID
    names        node names, hostnames, `instance` labels with or without port
    addresses    IPs
    """

    provider_id: str = ""
    instance: str = ""
    names: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reported:
    """One event of one machine as its source tells it now. An event of five machines is five.

    external_id  the source's own, without the machine; the same event told again has the same
    phase        as the source says; None: it is under way, from `not_before` on if that is given
    host         None: about no machine (a cluster-wide alert); such a one never repairs a node
    silent       the source tells nothing when it is over: it ends when a complete list lacks it
    advisory     a hint after which nothing may come; ends by itself after an hour (F09)
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
    """What one delivery or one look gave.

    scope     whose list it is: `azure:/subscriptions/...`, `alertmanager`; "" for a single message
    complete  the list is whole: what it lacks of `scope` is over
    ignored   what was understood and is of no concern, a sentence each, for the counters
    """

    events: tuple[Reported, ...]
    scope: str = ""
    complete: bool = False
    ignored: tuple[str, ...] = ()
