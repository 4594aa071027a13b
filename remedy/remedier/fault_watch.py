"""Finds faults that no rule acts on, so that people are notified after a time.

A rule that does not select the node, for example because it excludes control planes, may find its
evidence on it, and a rule that selects it may be held for hours by a guard that relies on the other
rule. Both are right not to act; but if no job is open, a person has to know.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType

from kubenode.api.duration import format_duration
from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.api.v1alpha1.leaves import AlertLeaf, ConditionLeaf, EventLeaf, HostEventLeaf
from kubenode.api.v1alpha1.noderemedier import Severity
from remedy.job.model import ACTING
from remedy.remedier.decide import Decision, WaitReason
from remedy.remedier.proof import fold
from rules.atoms import read
from rules.facts import FactSet
from rules.selection import MOST_SELECTIONS, label_keys
from rules.truth import Truth

UNATTENDED = timedelta(hours=1)
"""Time for which a fault may be without a job before people are notified."""
EVALUATION_INTERVAL = timedelta(minutes=5)
"""Interval between two evaluations of the rules that do not select a node."""
REASON = "FaultUnattended"
KNOWN_TO_PEOPLE = frozenset(
    {WaitReason.OPEN_JOB, WaitReason.ATTEMPTS, WaitReason.INCIDENT, WaitReason.COVERED}
)
"""Waits that people know of: there is a job, an Event reported it, or a person decided."""
_NONE: Mapping[str, str] = MappingProxyType({})
_SIGNALS = (ConditionLeaf, EventLeaf, HostEventLeaf, AlertLeaf)


@dataclass(slots=True)
class _Fault:
    """A fault without a job.

    since: monotonic time in seconds
    why: by rule name, why it does not act
    notified: whether people were notified
    """

    since: float
    why: dict[str, str]
    notified: bool = False


class Unattended:
    """Remembers per node since when it has a fault that no rule acts on. Losing it in a restart
    only delays the notification.
    """

    def __init__(self) -> None:
        self._rules: Mapping[str, NodeRemedier] = {}
        self._unselected = UnselectedRules(())
        self._faults: dict[str, _Fault] = {}
        self._looked: dict[str, tuple[float, Mapping[str, str]]] = {}

    def __len__(self) -> int:
        """Number of nodes that people were notified about."""
        return sum(fault.notified for fault in self._faults.values())

    def forget(self, node: str) -> None:
        self._faults.pop(node, None)
        self._looked.pop(node, None)

    def evaluate(
        self,
        facts: FactSet,
        rules: Mapping[str, NodeRemedier],
        waiting: Mapping[str, str],
        now: datetime,
        monotonic: float,
    ) -> str:
        """Return the notification for a node without an open job; "" for none.

        rules: by rule id, those that may create jobs
        waiting: by name, matching rules that act on the node, and what holds them
        monotonic: current monotonic time in seconds
        """
        if rules is not self._rules:
            self._rules, self._unselected = rules, UnselectedRules(rules.values())
            self._looked.clear()
        node = facts.node
        if facts.values.get("maintenance.active") is True:
            self._faults.pop(node, None)
            return ""
        why = {**self._elsewhere(facts, now, monotonic), **waiting}
        if not why:
            self._faults.pop(node, None)
            return ""
        fault = self._faults.setdefault(node, _Fault(monotonic, why))
        fault.why = why
        if fault.notified or monotonic - fault.since < UNATTENDED.total_seconds():
            return ""
        fault.notified = True
        reasons = "; ".join(f"rule {name} {text}" for name, text in sorted(why.items()))
        lasts = format_duration(UNATTENDED)
        return f"a fault lasts for over {lasts}, and nobody acts on it: {reasons}"[:1000]

    def attended(self, node: str) -> None:
        """Record that a job is open, or about to be."""
        self._faults.pop(node, None)

    def again(self, node: str) -> timedelta | None:
        """Return when to evaluate a node with such a fault again; None for a node without one."""
        return EVALUATION_INTERVAL if node in self._faults else None

    def _elsewhere(self, facts: FactSet, now: datetime, monotonic: float) -> Mapping[str, str]:
        """Return rules that do not select the node although their evidence is true, by name."""
        at, reasons = self._looked.get(facts.node, (None, _NONE))
        if at is not None and monotonic - at < EVALUATION_INTERVAL.total_seconds():
            return reasons
        fault = self._faults.get(facts.node)
        before = fault.why if fault is not None else _NONE
        lasting = {}
        for rule in self._unselected.of(facts.labels):
            truth = fold(rule.spec.when, lambda leaf: read(leaf, facts, now).truth)
            name = rule.metadata.name
            if truth is Truth.TRUE or (truth is Truth.UNKNOWN and name in before):
                lasting[name] = "does not select the node"
        reasons = lasting or _NONE
        self._looked[facts.node] = (monotonic, reasons)
        return reasons


def list_waiting_rules(decision: Decision, acting: Collection[str]) -> dict[str, str]:
    """Return the matching rules among `acting` with waits that people do not know of yet."""
    return {
        name: f"is held ({why})"
        for name, why in decision.waits
        if name in acting and why not in KNOWN_TO_PEOPLE
    }


class UnselectedRules:
    """Rules that act and report a fault, by the nodes that they do not select."""

    def __init__(self, rules: Iterable[NodeRemedier]) -> None:
        self._rules = [rule for rule in rules if _tells_of_a_fault(rule)]
        self._keys = sorted({key for rule in self._rules for key in label_keys(rule.spec.nodes)})
        self._by_labels: dict[tuple[str | None, ...], tuple[NodeRemedier, ...]] = {}

    def of(self, labels: Mapping[str, str]) -> tuple[NodeRemedier, ...]:
        """Return the rules that do not select a node with these labels."""
        key = tuple([labels.get(name) for name in self._keys])
        rules = self._by_labels.get(key)
        if rules is None:
            if len(self._by_labels) >= MOST_SELECTIONS:
                self._by_labels.clear()
            rules = tuple(r for r in self._rules if not r.spec.nodes.matches(labels))
            self._by_labels[key] = rules
        return rules


def _tells_of_a_fault(rule: NodeRemedier) -> bool:
    spec = rule.spec
    acts = spec.mode in ACTING and spec.ladder is not None and spec.severity is not Severity.INFO
    return acts and any(isinstance(leaf, _SIGNALS) for leaf in spec.when.leaves())
