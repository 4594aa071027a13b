"""Answers of HostProbes as facts of their nodes.

The newest settled probe of each kind counts. While a new one is open the older answer still counts,
with its age. When a probe expires without an answer, or was answered with an error, its fields are
unknown.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

from kubenode.api.v1alpha1.hostprobe import HostProbe, ProbeName
from rules.facts import ProbeFact, Value
from rules.probes import PROBES, ProbeField

FIELDS: Mapping[str, tuple[ProbeField, ...]] = {
    str(kind): tuple(f for f in PROBES.values() if f.name.startswith(f"{kind}."))
    for kind in ProbeName
}


class ProbeAnswers:
    """HostProbes by node."""

    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, HostProbe]] = {}

    def changed(self, old: HostProbe | None, new: HostProbe | None) -> str | None:
        """Return the node with a new answer, to be evaluated again; None for none."""
        probe = new or old
        if probe is None or not probe.spec.node_name:
            return None
        node = probe.spec.node_name
        mine = self._by_node.setdefault(node, {})
        if new is None:
            mine.pop(probe.metadata.name, None)
            if not mine:
                del self._by_node[node]
            return None
        mine[new.metadata.name] = new
        answered = new.status.answered_at is not None
        before = old is not None and old.status.answered_at is not None
        return node if answered and not before else None

    def facts(self, node: str, now: datetime) -> Mapping[str, ProbeFact]:
        mine = self._by_node.get(node)
        return facts_of(mine.values(), now) if mine else {}


def facts_of(probes: Iterable[HostProbe], now: datetime) -> dict[str, ProbeFact]:
    """Return the facts by `probe.field`. Probes that were never sent give no facts."""
    newest: dict[str, tuple[datetime, HostProbe]] = {}
    for probe in probes:
        at = settled_at(probe, now)
        kind = str(probe.spec.name)
        if at is not None and (kind not in newest or newest[kind][0] < at):
            newest[kind] = at, probe
    return {
        field.name: ProbeFact(_value(field, probe), at)
        for kind, (at, probe) in newest.items()
        for field in FIELDS[kind]
    }


def settled_at(probe: HostProbe, now: datetime) -> datetime | None:
    """Return when the probe was answered, or expired without an answer; None while it is open.

    The time is kept between the creation of the probe and its expiry, since a host's clock may be
    wrong.
    """
    answered, expires = probe.status.answered_at, probe.spec.expires_at
    if answered is not None:
        created = probe.metadata.creation_timestamp or answered
        return min(max(answered, created), expires, now)
    return expires if expires <= now else None


def _value(field: ProbeField, probe: HostProbe) -> Value | None:
    """Return the value of a field; None if it was not answered or has another type than the
    catalogue's.
    """
    if probe.status.answered_at is None or probe.status.error:
        return None
    value = probe.status.answer.get(field.name.partition(".")[2])
    match field.type:
        case "boolean":
            return value if isinstance(value, bool) else None
        case "number":
            number = isinstance(value, int | float) and not isinstance(value, bool)
            return value if number else None
        case "text":
            return value if isinstance(value, str) else None
