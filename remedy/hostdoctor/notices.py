"""Kubernetes Events about HostEvents that no rule can read. Pure."""

from dataclasses import dataclass

from kubenode.api.v1alpha1.hostevent import HostEvent
from remedy.hostdoctor.conditions import RESOLVED
from remedy.hostdoctor.nodes import ResolutionReason
from remedy.remedier.hostevents import ALERT_NAME, WATCHDOG

WITHOUT_NODE, UNRESOLVED = "AlertWithoutNode", "HostEventUnresolved"


@dataclass(frozen=True, slots=True)
class WarningNotice:
    """`reason` and `message` of an Event of type Warning."""

    reason: str
    message: str


def of(old: HostEvent | None, new: HostEvent) -> WarningNotice | None:
    """Return the notice, once for each time that an event without a Node begins; None for none."""
    phase, before = new.status.phase, old.status if old is not None else None
    if phase is None or not phase.open or new.spec.node.name:
        return None
    if new.spec.attributes.get(ALERT_NAME) == WATCHDOG:
        return None
    was_open = before is not None and before.phase is not None and before.phase.open
    if was_open and before is not None and before.seen == new.status.seen:
        return None
    resolved = next((c for c in new.status.conditions if c.type == RESOLVED), None)
    why = resolved.message if resolved is not None else ""
    what = new.spec.attributes.get(ALERT_NAME) or f"{new.spec.class_} {new.spec.external_id}"
    about = f"{what}: {new.spec.message}".rstrip(": ")
    nobody = resolved is not None and resolved.reason == ResolutionReason.NO_HOST
    return WarningNotice(WITHOUT_NODE if nobody else UNRESOLVED, f"{about} ({why})")
