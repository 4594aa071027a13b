"""What HostProbes have answered, as facts of their nodes.

The newest question of each kind speaks. While it is open the answer before it still counts, as old
as it is; once it has expired without an answer, or was answered with an error, its fields are
unknown and say so.
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
    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, HostProbe]] = {}

    def changed(self, old: HostProbe | None, new: HostProbe | None) -> str | None:
        """The node that has to look again: about which something was answered."""
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
    """By `probe.field`. Nothing at all is known of what was never asked."""
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
    """When it was answered, or expired without an answer; None while it is open.

    No answer is younger than the end of its question nor older than the question: the clock of a
    host may be wrong.
    """
    answered, expires = probe.status.answered_at, probe.spec.expires_at
    if answered is not None:
        asked = probe.metadata.creation_timestamp or answered
        return min(max(answered, asked), expires, now)
    return expires if expires <= now else None


def _value(field: ProbeField, probe: HostProbe) -> Value | None:
    """None for what was not answered, and for an answer of another type than the catalogue's."""
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
