"""`kubenode events`: lists HostEvents."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import typer

from kubenode.api.v1alpha1 import HostEvent
from kubenode.api.v1alpha1.hostevent import HostEventClass
from kubenode.cli.cluster import connected, require_crds
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.lengths import length
from kubenode.cli.options import Listing
from kubenode.cli.tables import show
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.errors import Forbidden
from remedy.remedier.hostevents import phase_at

PLURAL = HostEvent.resource.plural
COLUMNS = {
    "NAME": "name",
    "NODE": "node",
    "SOURCE": "source",
    "CLASS": "class",
    "PHASE": "phase",
    "STARTS": "starts",
    "SEEN": "seen",
    "AGE": "age",
    "WHAT": "what",
}
WIDE = {"SEVERITY": "severity", "UNRESOLVED": "unresolved", "ENDED": "ended", "MESSAGE": "message"}
SHOWN = 60
"""Characters of free text in a cell."""


async def list_events(
    kubeconfig: str | None,
    context: str | None,
    node: str,
    classes: Sequence[str],
    everything: bool,
    unresolved: bool,
    output: Listing,
) -> Exit:
    """Print HostEvents.

    classes: names of classes, in any case; empty for all.
    everything: include closed events.
    unresolved: only events that are about no known Node.
    """
    wanted = [_class(text) for text in classes]
    async with connected(kubeconfig, context) as kube:
        await require_crds(kube)
        with _refusals():
            query = {"fieldSelector": f"spec.node.name={node}"} if node else None
            answer: Mapping[str, Any] = await kube.get(paths.custom(PLURAL), query=query)
        now = kube.clock.now()
    events = [HostEvent.model_validate(item, extra="ignore") for item in answer["items"]]
    events = [e for e in events if not wanted or e.spec.class_ in wanted]
    events = [e for e in events if everything or _open(e, now)]
    events = [e for e in events if not unresolved or not e.spec.node.name]
    rows = [row(event, now) for event in sorted(events, key=lambda e: _order(e, now))]
    if not rows and output in (Listing.TABLE, Listing.WIDE):
        typer.echo("no events" if everything else "no open events; --all shows closed ones too")
        return Exit.FINE
    show(rows, COLUMNS, WIDE, output, HostEvent.resource.kind)
    return Exit.FINE


def row(event: HostEvent, now: datetime) -> dict[str, Any]:
    spec, status = event.spec, event.status
    phase = phase_at(event, now)
    first = status.first_seen or event.metadata.creation_timestamp
    starts = spec.not_before if phase is not None and phase.open else None
    return {
        "name": event.metadata.name,
        "node": spec.node.name,
        "source": str(spec.source),
        "class": str(spec.class_),
        "phase": str(phase) if phase is not None else "",
        "starts": _starts(starts, now),
        "seen": status.seen,
        "age": length(now - first) if first is not None else "",
        "what": spec.attributes.get("alertname") or _cut(spec.external_id),
        "severity": str(spec.severity),
        "unresolved": "" if spec.node.name else _condition(event, "Resolved"),
        "ended": _condition(event, "Ended") if phase is None or not phase.open else "",
        "message": _cut(" ".join(spec.message.split())),
    }


def _starts(at: datetime | None, now: datetime) -> str:
    return f"in {length(at - now)}" if at is not None and at > now else ""


def _condition(event: HostEvent, type_: str) -> str:
    condition = next((c for c in event.status.conditions if c.type == type_), None)
    return f"{condition.reason}: {condition.message}" if condition is not None else ""


def _open(event: HostEvent, now: datetime) -> bool:
    phase = phase_at(event, now)
    return phase is None or phase.open


def _order(event: HostEvent, now: datetime) -> tuple[bool, float, str]:
    """Sort key: open events first, then those that were reported last."""
    last = event.status.last_seen or event.metadata.creation_timestamp
    last_timestamp = last.timestamp() if last is not None else 0.0
    return not _open(event, now), -last_timestamp, event.metadata.name


def _class(text: str) -> HostEventClass:
    by_name = {each.lower(): each for each in HostEventClass}
    if (event_class := by_name.get(text.lower())) is None:
        there = ", ".join(HostEventClass)
        raise Refusal(f"--class: there is no class {text}; there are: {there}", Exit.USAGE)
    return event_class


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except Forbidden as error:
        role = "ClusterRole kubenode-viewer of charts/kubenode/people.yaml has it"
        text = f"you may not list {PLURAL}.kubenode.io: {error.message}; {role}"
        raise Refusal(text) from error
