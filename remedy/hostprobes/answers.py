"""Answers of HostProbes as facts of their nodes.

Earlier answers are remembered for `for` of probes, as long as some HostProbe of their kind exists.
After a restart they come from the HostProbes that still exist.

The newest settled probe of each kind counts. While a new one is open the older answer still counts,
with its age. When a probe expires without an answer, or was answered with an error, its fields are
unknown.
"""

from bisect import insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter

from kubenode.api.v1alpha1.hostprobe import HostProbe, ProbeName
from rules.facts import ProbeFact, Value
from rules.probes import PROBES, ProbeField

FIELDS: Mapping[str, tuple[ProbeField, ...]] = {
    str(kind): tuple(f for f in PROBES.values() if f.name.startswith(f"{kind}."))
    for kind in ProbeName
}


MOST_ANSWERS = 75
"""Most answers of one kind that are remembered: a probe is sent once a minute, for an hour."""


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """Values of one answer by `probe.field`."""

    at: datetime
    values: Mapping[str, Value | None]


class ProbeAnswers:
    """HostProbes by node."""

    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, HostProbe]] = {}
        self._history: dict[str, dict[str, list[ProbeAnswer]]] = {}
        """Answers by node and kind, oldest first."""

    def changed(self, old: HostProbe | None, new: HostProbe | None) -> str | None:
        """Return the node with a new answer, to be evaluated again; None for none."""
        probe = new or old
        if probe is None or not probe.spec.node_name:
            return None
        node = probe.spec.node_name
        mine = self._by_node.setdefault(node, {})
        if new is None:
            mine.pop(probe.metadata.name, None)
            if all(other.spec.name != probe.spec.name for other in mine.values()):
                self._history.get(node, {}).pop(str(probe.spec.name), None)
            if not mine:
                del self._by_node[node]
                self._history.pop(node, None)
            return None
        mine[new.metadata.name] = new
        answered = new.status.answered_at is not None
        before = old is not None and old.status.answered_at is not None
        if not answered or before:
            return None
        self._remember(node, new)
        return node

    def facts(self, node: str, now: datetime) -> Mapping[str, ProbeFact]:
        mine, history = self._by_node.get(node), self._history.get(node, {})
        if not mine:
            return {}
        return {
            name: replace(fact, earlier=_earlier(name, fact, history))
            for name, fact in facts_of(mine.values(), now).items()
        }

    def _remember(self, node: str, probe: HostProbe) -> None:
        kind, at = str(probe.spec.name), settled_at(probe, probe.spec.expires_at)
        if at is None or not FIELDS[kind]:
            return
        answers = self._history.setdefault(node, {}).setdefault(kind, [])
        values = {field.name: _value(field, probe) for field in FIELDS[kind]}
        insort(answers, ProbeAnswer(at, values), key=attrgetter("at"))
        del answers[:-MOST_ANSWERS]


def _earlier(
    name: str, fact: ProbeFact, history: Mapping[str, Sequence[ProbeAnswer]]
) -> tuple[tuple[datetime, Value | None], ...]:
    answers = history.get(name.partition(".")[0], ())
    return tuple((a.at, a.values.get(name)) for a in answers if a.at < fact.answered_at)


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
