"""Evaluates which rules of the library match the signal of a row. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from kubenode.api.v1alpha1 import Expression, NodeRemedier
from kubenode.api.v1alpha1.leaves import (
    AbsentLeaf,
    AlertLeaf,
    ConditionLeaf,
    EventLeaf,
    HostEventLeaf,
    Leaf,
    ProbeLeaf,
)
from remedy.remedier.proof import fold
from rules.atoms import read
from rules.facts import AlertFact, ConditionFact, EventFact, FactSet, HostEventFact
from rules.truth import Truth
from simulation.coverage.rows import OFTEN, Row, Signal

NOW = datetime(2026, 3, 2, 10, tzinfo=UTC)
CONDITION_SPAN = timedelta(hours=1)
"""How long conditions and alerts have lasted: longer than any rule requires."""
SOON = timedelta(minutes=10)
WORKER = {"kubernetes.io/os": "linux"}
CONTROL_PLANE = WORKER | {"node-role.kubernetes.io/control-plane": ""}


@dataclass(frozen=True, slots=True)
class Served:
    """A row with the rules that its signals match on a worker, strongest first.

    confirmed: rules that match only if the answer of a probe agrees.
    control_plane: rules that match on a control plane node, those that need a probe last.
    because: the reason why no rule serves the row; "" if one does, or if no reason is given.
    """

    row: Row
    rules: tuple[str, ...] = ()
    confirmed: tuple[str, ...] = ()
    control_plane: tuple[str, ...] = ()
    because: str = ""

    @property
    def open(self) -> bool:
        return not (self.rules or self.confirmed or self.because)

    @property
    def untold(self) -> bool:
        """Return whether the fault has a rule on workers and none on control plane nodes."""
        return bool(self.rules or self.confirmed) and not self.control_plane


def serve(row: Row, rules: Sequence[NodeRemedier], because: str = "") -> Served:
    """Find the rules that serve a row. Rules that infer facts serve none by themselves.

    rules: in the order of choice.
    """
    plain, confirmed = _serving(row, rules, WORKER)
    control_plane = _serving(row, rules, CONTROL_PLANE)
    return Served(row, plain, confirmed, (*control_plane[0], *control_plane[1]), because)


def _serving(
    row: Row, rules: Sequence[NodeRemedier], labels: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the rules that match on a node with `labels`, and those that need a probe."""
    by_answer: dict[str, list[str]] = {"plain": [], "confirmed": []}
    for rule in rules:
        if rule.spec.ladder is None or not rule.spec.nodes.matches(labels):
            continue
        answers = [matches(rule, signal, labels) for signal in row.signals]
        answer = next((answer for answer in by_answer if answer in answers), None)
        if answer is not None:
            by_answer[answer].append(rule.metadata.name)
    return tuple(by_answer["plain"]), tuple(by_answer["confirmed"])


def matches(rule: NodeRemedier, signal: Signal, labels: Mapping[str, str] = WORKER) -> str:
    """Return `plain` if the rule matches, `confirmed` if it matches once probes agree, else ""."""
    if not _reads(rule, signal):
        return ""
    spec, facts = rule.spec, facts_of(signal, labels)
    if spec.unless is not None and _is_blocked(spec.unless, facts):
        return ""
    if fold(spec.when, lambda leaf: read(leaf, facts, NOW).truth) is Truth.TRUE:
        return "plain"
    if fold(spec.when, lambda leaf: _supposing(leaf, facts)) is Truth.TRUE:
        return "confirmed"
    return ""


def _reads(rule: NodeRemedier, signal: Signal) -> bool:
    """Return whether a leaf of the evidence reads this kind of signal."""
    for leaf in rule.spec.when.leaves():
        match leaf:
            case ConditionLeaf() if signal.condition and leaf.type == signal.condition[0]:
                return True
            case EventLeaf() if signal.event:
                return True
            case AlertLeaf() if signal.alert:
                return True
            case HostEventLeaf() if signal.host_event:
                return True
            case _:
                pass
    return False


def _is_blocked(unless: Expression, facts: FactSet) -> bool:
    return fold(unless, lambda leaf: read(leaf, facts, NOW).truth) is Truth.TRUE


def _supposing(leaf: Leaf | AbsentLeaf, facts: FactSet) -> Truth:
    """Evaluate a leaf as if every probe answered what the rule needs."""
    return Truth.TRUE if isinstance(leaf, ProbeLeaf) else read(leaf, facts, NOW).truth


def facts_of(signal: Signal, labels: Mapping[str, str] = WORKER) -> FactSet:
    """Return the facts of a node of which only its labels and this signal are known."""
    since = NOW - CONDITION_SPAN
    conditions: dict[str, ConditionFact] = {}
    if signal.condition is not None:
        type_, status, reason = signal.condition
        fact = ConditionFact(type_, status, reason, signal.message, since, NOW)
        conditions[type_] = fact
    events: list[EventFact] = []
    if signal.event is not None:
        reason, message, source = signal.event
        at = NOW - timedelta(seconds=30)
        events.append(EventFact(reason, message, source, "Warning", OFTEN, at))
    alerts: list[AlertFact] = []
    if signal.alert is not None:
        name, alert_labels = signal.alert
        alerts.append(AlertFact(name, dict(alert_labels), True, since))
    hosts: list[HostEventFact] = []
    if signal.host_event is not None:
        class_, phase = signal.host_event
        begins = NOW + SOON if phase != "Active" else None
        hosts.append(HostEventFact("e", class_, "AWS", phase, "Warning", "", since, NOW, begins))
    return FactSet(
        "a", conditions=conditions, events=events, alerts=alerts, alerts_alive_at=NOW,
        host_events=hosts, labels=labels,
    )  # fmt: skip
