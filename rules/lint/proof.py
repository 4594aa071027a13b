"""Remarks on ladders that cannot prove their repair or cannot end."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from enum import IntEnum

from kubenode.api.duration import format_duration
from kubenode.api.v1alpha1 import Disruption, Expression, Mode, NodeRemedier, Rung
from kubenode.api.v1alpha1.ladder import AgentAction, MigrateStep, OnTimeout, PodPolicyMode
from kubenode.api.v1alpha1.leaves import (
    AlertLeaf,
    ConditionLeaf,
    EventLeaf,
    FactLeaf,
    HostEventLeaf,
    Leaf,
    ProbeLeaf,
)
from rules.lint.conditions import LATCHED
from rules.lint.finding import Remark
from rules.lint.name_tables import split_names
from rules.lint.walk import LeafPlace, members, places
from rules.polarity import HEALTHY_WHEN_TRUE

Inferred = Mapping[str, Expression]
"""Derived fact to the evidence of a rule that infers it."""

ISOLATING = frozenset({"cordon", "migrate"})
REPAIRING = split_names(
    "reboot powerOff powerOn powerCycle fence replace rollbackComponent uncordon waitForApproval"
    " waitForEvent approveEvent webhook createObject"
)
OF_THE_MOMENT = frozenset({"node.ready", "node.notReadyFor", "node.leaseAge", "node.clockOffset"})
"""Built-in facts that a repair changes."""
OF_THE_HOST = split_names(
    "host.platform host.pid_max host.inotify_watches_max disk.data_volumes"
    " ready.statefulset_pods ready.gang_pods"
)
"""Answers of probes that a repair does not change."""


class Worth(IntEnum):
    """What the end of a leaf or an expression proves about the fault, least first."""

    HINT = 0
    """It ends or stays independently of the fault."""
    CONTEXT = 1
    """It is about the node, not about the fault."""
    PROOF = 2


def remarks(rule: NodeRemedier, inferred: Inferred) -> Iterator[Remark]:
    ladder = rule.spec.ladder or []
    if not ladder:
        return
    yield from _unproven(rule, inferred)
    if _isolates(rule) and not _leads_out(rule):
        yield (
            "spec.ladder",
            "no-exit",
            "the rule isolates the node and names neither a repair nor onGiveUp: add a repair or"
            " waitForApproval, or write onGiveUp: Hold or Release",
        )
    for number, rung in enumerate(ladder):
        yield from _impossible(f"spec.ladder[{number}]", rung)
    yield from _endless(f"spec.ladder[{len(ladder) - 1}]", ladder[-1])
    yield from _outlasted(rule)


# -- proof -----------------------------------------------------------------------------------------


def _unproven(rule: NodeRemedier, inferred: Inferred) -> Iterator[Remark]:
    if worth(rule.spec.when, inferred) is not Worth.HINT:
        return
    leaf_places = places(rule.spec.when, "spec.when")
    hints = [p for p in leaf_places if not p.negated and _of_leaf(p.leaf, inferred) is Worth.HINT]
    for number, rung in enumerate(rule.spec.ladder or []):
        if rung.disruption_class.weight < Disruption.PODS.weight or _own_proof(rung, inferred):
            continue
        yield (
            f"spec.ladder[{number}]",
            "unproven-repair",
            f"rung {rung.name} is of class {rung.disruption_class}, and the rule can match on"
            f" {_named(hints)} alone, whose end proves nothing: add verify.cleared with a probe or"
            " a condition that its detector takes back, or verify.checks",
        )


def _own_proof(rung: Rung, inferred: Inferred) -> bool:
    cleared = rung.verify.cleared
    return bool(rung.verify.checks) or (
        cleared is not None and worth(cleared, inferred) is Worth.PROOF
    )


def _named(hints: list[LeafPlace]) -> str:
    """Name the kinds of leaves, each once."""
    names = []
    for place in hints:
        match place.leaf:
            case ConditionLeaf():
                names.append(f"condition {place.leaf.type} (its detector never takes it back)")
            case EventLeaf():
                names.append("Events")
            case AlertLeaf():
                names.append("an alert")
            case HostEventLeaf():
                names.append(f"a HostEvent of {place.leaf.class_ or place.leaf.source}")
            case FactLeaf():
                names.append(f"fact {place.leaf.name} (derived of such)")
            case _:
                pass
    return " or ".join(dict.fromkeys(names)) or "hints"


def worth(
    expression: Expression, inferred: Inferred, visited: frozenset[str] = frozenset()
) -> Worth:
    """Return what the end of the expression proves, for the worst way in which it becomes true."""
    if (leaf := expression.leaf) is not None:
        if expression.absent is not None:
            return _negated(expression.absent.leaf)
        return _of_leaf(leaf, inferred, visited)  # type: ignore[arg-type]  # absent was above
    if expression.not_ is not None:
        inner = expression.not_.leaf
        return _negated(inner) if isinstance(inner, ConditionLeaf) else Worth.CONTEXT
    values = [worth(member, inferred, visited) for member, _ in members(expression, "")]
    if expression.any is not None:
        return min(values)
    return Worth.PROOF if Worth.PROOF in values else min(values)


def _negated(leaf: Leaf) -> Worth:
    """Return the worth of `not` or `absent`, which prove only if the leaf is health itself."""
    if isinstance(leaf, ConditionLeaf) and leaf.status == "True":
        healthy = leaf.type in HEALTHY_WHEN_TRUE
        return (
            Worth.CONTEXT if not healthy else (Worth.HINT if leaf.type in LATCHED else Worth.PROOF)
        )
    return Worth.HINT if isinstance(leaf, EventLeaf | AlertLeaf) else Worth.CONTEXT


def _of_leaf(leaf: Leaf, inferred: Inferred, visited: frozenset[str] = frozenset()) -> Worth:
    match leaf:
        case EventLeaf() | AlertLeaf():
            return Worth.HINT
        case ConditionLeaf():
            return Worth.HINT if leaf.type in LATCHED else Worth.PROOF
        case HostEventLeaf():
            reported = leaf.class_ in ("Log", "Alert") or leaf.source == "Alertmanager"
            return Worth.HINT if reported else Worth.PROOF
        case ProbeLeaf():
            return Worth.CONTEXT if leaf.name in OF_THE_HOST else Worth.PROOF
        case FactLeaf() if leaf.name in inferred and leaf.name not in visited:
            return worth(inferred[leaf.name], inferred, visited | {leaf.name})
        case FactLeaf() if leaf.name in OF_THE_MOMENT:
            return Worth.PROOF
        case _:
            return Worth.CONTEXT


# -- exits from a rule -----------------------------------------------------------------------------


def _isolates(rule: NodeRemedier) -> bool:
    return any(step.name in ISOLATING for rung in rule.spec.ladder or () for step in rung.steps)


def _leads_out(rule: NodeRemedier) -> bool:
    spec = rule.spec
    if "on_give_up" in spec.model_fields_set or spec.mode is Mode.APPROVE:
        return True
    for rung in spec.ladder or ():
        if rung.verify.checks:
            return True
        for step in rung.steps:
            agent = step.agent is not None and step.agent.action is not AgentAction.RUN_CHECK
            if agent or step.name in REPAIRING:
                return True
    return False


def _impossible(path: str, rung: Rung) -> Iterator[Remark]:
    verify = rung.verify
    if verify.for_ > verify.timeout:
        yield (
            f"{path}.verify",
            "impossible-proof",
            f"the fault must be gone for {format_duration(verify.for_)}, but after"
            f" {format_duration(verify.timeout)} the rung counts as failed: give verify.timeout"
            " more than verify.for",
        )


def _endless(path: str, rung: Rung) -> Iterator[Remark]:
    for number, step in enumerate(rung.steps):
        if step.migrate is not None and (why := _waits_for_ever(step.migrate)):
            yield (
                f"{path}.steps[{number}].migrate",
                "endless-ladder",
                f"the last rung cannot end: {why}, and onTimeout Yield begins again: write"
                " onTimeout: Escalate or Stop",
            )


def _waits_for_ever(migrate: MigrateStep) -> str:
    """Describe why a migration with onTimeout Yield never empties a node; "" if it may."""
    if migrate.on_timeout is not OnTimeout.YIELD:
        return ""
    for policy in migrate.pod_policies:
        if policy.namespaces or policy.selector is not None or policy.owner_kinds:
            continue
        if policy.mode is PodPolicyMode.NEVER:
            return "its podPolicies never move a pod"
        if policy.mode is PodPolicyMode.WAIT_FOR_COMPLETION:
            return "its podPolicies wait for every pod to end by itself"
        return ""  # the first matching policy decides, and this one matches all pods
    return ""


# -- proof by Events -------------------------------------------------------------------------------


def _outlasted(rule: NodeRemedier) -> Iterator[Remark]:
    """Yield remarks on rungs whose verify.timeout ends before the window of their Events."""
    window = _window(rule.spec.when)
    for number, rung in enumerate(rule.spec.ladder or []):
        needed = window + rung.verify.for_
        if window and rung.verify.cleared is None and rung.verify.timeout < needed:
            yield (
                f"spec.ladder[{number}].verify",
                "window-outlasts-proof",
                f"Events stay in the window for {format_duration(window)}, the proof has only"
                f" {format_duration(rung.verify.timeout)}: give verify.timeout at least"
                f" {format_duration(needed)}",
            )


def _window(expression: Expression) -> timedelta:
    """Return how long after the last Event the evidence may stay true by Events alone."""
    if expression.event is not None:
        return expression.event.within
    windows = [_window(member) for member, _ in members(expression, "")]
    if not windows or expression.not_ is not None:
        return timedelta(0)
    return max(windows) if expression.any is not None else min(windows)
