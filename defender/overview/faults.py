"""Faults of a node, whatever the mode of the rules that report them. Pure.

A node has a fault if it is not Ready, if a condition that a loaded rule reads as evidence says so,
while a rule's job is open for it, or while a rule in DryRun matches it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from defender.dashboard.rule import RuleView
from defender.decision.breaker.faults import excused
from defender.decision.census import CensusMember, NodeHealth
from defender.decision.jobs import ObservedJob
from defender.decision.ledger import LedgerPermit
from defender.overview.records import DryRunView
from kubenode.api.meta import NodeSelection
from kubenode.runtime.hosttime import as_written
from kubenode.runtime.kube.objects import Node, NodeCondition
from rules.leaves.pattern import finds_pattern

GOOD_SUFFIXES = ("Ready", "Healthy", "Available")
"""Ends of condition types that are True on a healthy node; all others are False on one."""
NOT_READY = "NotReady"


@dataclass(frozen=True, slots=True)
class ObservedFault:
    """A fault of a node.

    name: a condition type, NOT_READY or a fault class.
    since: its start as far as known.
    rule: the rule that reports it; "" for NOT_READY.
    """

    name: str
    since: datetime | None = None
    rule: str = ""


@dataclass(frozen=True, slots=True)
class EvidenceCondition:
    """A node condition that is evidence of a rule."""

    rule: str
    type: str
    status: str
    reason: str | None
    message: str | None
    nodes: NodeSelection | None

    def is_true(self, condition: NodeCondition, labels: Mapping[str, str]) -> bool:
        """Return whether a condition of this type and status fits."""
        return (
            finds_pattern(self.reason, condition.reason)
            and finds_pattern(self.message, condition.message)
            and (self.nodes is None or self.nodes.matches(labels))
        )


@dataclass(frozen=True, slots=True)
class FaultConditions:
    """The conditions that report faults, by type and status.

    types: the first of the types that a rule reads, by the name of the rule.
    """

    by_status: Mapping[tuple[str, str], tuple[EvidenceCondition, ...]] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, rules: Iterable[RuleView]) -> "FaultConditions":
        """Collect the conditions of all rules that are not Off."""
        by_status: dict[tuple[str, str], list[EvidenceCondition]] = {}
        types: dict[str, str] = {}
        for rule in sorted(rules, key=lambda rule: rule.metadata.name):
            if rule.spec.mode == "Off":
                continue
            selection = _selection(rule.spec.nodes)
            for leaf in _conditions(rule.spec.when):
                evidence = _evidence(rule.metadata.name, leaf, selection)
                if evidence is not None:
                    by_status.setdefault((evidence.type, evidence.status), []).append(evidence)
                    types.setdefault(evidence.rule, evidence.type)
        return cls({state: tuple(each) for state, each in by_status.items()}, types)

    def name(self, rule: str, fault_class: str) -> str:
        """Return the name of a fault that the rule reports: a fault has one name, also for a node
        that has lost the condition since.
        """
        return self.types.get(rule, fault_class or rule)

    def faults(self, node: Node) -> Iterator[ObservedFault]:
        """Yield a fault for each condition of the node that is evidence of a rule."""
        for condition in node.status.conditions:
            for evidence in self.by_status.get((condition.type, condition.status), ()):
                if evidence.is_true(condition, node.metadata.labels):
                    since = _since(condition)
                    yield ObservedFault(condition.type, since, evidence.rule)
                    break


NO_CONDITIONS = FaultConditions()


def find_faults(
    node: Node,
    member: CensusMember | None,
    jobs: Iterable[ObservedJob],
    permits: Iterable[LedgerPermit],
    dry_runs: Iterable[DryRunView],
    conditions: FaultConditions,
) -> tuple[ObservedFault, ...]:
    """Return the faults of the node, each name once.

    jobs: open jobs of the node.
    permits: permits held on it. A node that became not Ready under one has no fault by that.
    dry_runs: results of rules in DryRun whose evidence is still true.
    """
    faults: dict[str, ObservedFault] = {}
    rules: set[str] = set()
    for fault in (*_not_ready(node, member, permits), *conditions.faults(node)):
        faults.setdefault(fault.name, fault)
        rules.add(fault.rule)
    reported = [each for job in jobs if (each := _fault_of_job(job, conditions)) is not None]
    reported += [
        ObservedFault(conditions.name(run.remedier, run.fault_class), run.began, run.remedier)
        for run in dry_runs
    ]
    for fault in reported:
        if fault.rule not in rules:
            faults.setdefault(fault.name, fault)
    return tuple(faults.values())


def _not_ready(
    node: Node, member: CensusMember | None, permits: Iterable[LedgerPermit]
) -> Iterator[ObservedFault]:
    health = member.health if member is not None else NodeHealth.UNHEALTHY
    if node.is_ready or health in (NodeHealth.STARTING, NodeHealth.LEAVING):
        return
    ready = node.ready_condition
    since = _since(ready) if ready is not None else None
    if since is None or not excused(since, permits):
        yield ObservedFault(NOT_READY, since)


def _since(condition: NodeCondition) -> datetime | None:
    at = condition.last_transition_time
    return None if at is None else as_written(at)


def _fault_of_job(job: ObservedJob, conditions: FaultConditions) -> ObservedFault | None:
    """Return the fault that the job was made for; None for a person's job or a planned event."""
    if not job.spec.remedier.name or job.spec.deadline is not None:
        return None
    since = job.status.timeline.fault_seen or job.spec.trigger.first_true
    rule = job.spec.remedier.name
    name = conditions.name(rule, job.spec.fault_class)
    return ObservedFault(name, since or job.metadata.creation_timestamp, rule)


def _conditions(expression: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the `condition` leaves that are not below `not`."""
    if not isinstance(expression, Mapping):
        return
    if isinstance(leaf := expression.get("condition"), Mapping):
        yield leaf
    for name in ("all", "any"):
        members = expression.get(name)
        for member in members if isinstance(members, list) else ():
            yield from _conditions(member)


def _evidence(
    rule: str, leaf: Mapping[str, Any], nodes: NodeSelection | None
) -> EvidenceCondition | None:
    """Return the condition, None if it is a sign of health or is `Ready`, which is read apart."""
    type_, status = str(leaf.get("type", "")), str(leaf.get("status", "True"))
    is_good = (status == "True") is type_.endswith(GOOD_SUFFIXES)
    if type_ == "Ready" or is_good or status == "Unknown":
        return None
    return EvidenceCondition(rule, type_, status, leaf.get("reason"), leaf.get("message"), nodes)


def _selection(nodes: Any) -> NodeSelection | None:
    """Return the rule's selection; None, every node, if this version cannot read it."""
    try:
        return NodeSelection.model_validate(nodes)
    except ValueError:
        return None
