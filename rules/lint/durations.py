"""Remarks on durations and limits that are too short or too long, and on missing settings."""

from collections.abc import Iterator
from datetime import timedelta

from kubenode.api.duration import format_duration
from kubenode.api.meta import SelectorOperator
from kubenode.api.v1alpha1 import Disruption, NodeRemedier
from kubenode.api.v1alpha1.noderecord import REMEMBERED
from rules.lint.finding import Remark

MANY = 5
"""Attempts of one rule on one node in a day that are too many."""
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"


def remarks(rule: NodeRemedier) -> Iterator[Remark]:
    spec = rule.spec
    if spec.ladder is None:
        return
    if spec.fault_class == "unknown":
        yield "spec", "no-fault-class", "the fault has no name: write faultClass"
    windows = {
        "spec.cooldown": spec.cooldown,
        "spec.attempts.within": spec.attempts.within,
        "spec.relapse.within": spec.relapse.within,
    }
    for place, window in windows.items():
        if window > REMEMBERED:
            yield (
                place,
                "beyond-memory",
                f"{format_duration(window)} is longer than a node's past is remembered: write"
                f" {format_duration(REMEMBERED)} or less",
            )
    if spec.disruption_class is Disruption.NONE:
        return
    if not spec.group_wait:
        yield (
            "spec.groupWait",
            "no-group-wait",
            "the first rule to match acts, even if a stronger one matches a second later: write 10s"
            " or leave it out",
        )
    if not spec.startup_grace:
        yield (
            "spec.startupGrace",
            "no-startup-grace",
            "nodes that are still starting count as broken: leave it at 5m or write how long your"
            " nodes take",
        )
    a_day = spec.attempts.max * (timedelta(days=1) / max(spec.attempts.within, timedelta(hours=1)))
    if a_day > MANY:
        yield (
            "spec.attempts",
            "many-attempts",
            f"up to {spec.attempts.max} jobs within {format_duration(spec.attempts.within)} for one"
            f" node: write {MANY} or less a day",
        )
    longest = max(rung.verify.timeout for rung in spec.ladder)
    if spec.cooldown < longest:
        yield (
            "spec.cooldown",
            "short-cooldown",
            f"{format_duration(spec.cooldown)} is shorter than the longest verify.timeout,"
            f" {format_duration(longest)}: make it as long",
        )
    if spec.disruption_class is Disruption.NODE and not _tells_control_plane(rule):
        yield (
            "spec.nodes",
            "control-plane",
            f"control plane nodes are among them: exclude {CONTROL_PLANE}, or name them in a rule"
            " of their own",
        )


def _tells_control_plane(rule: NodeRemedier) -> bool:
    """Return whether the selection names the control plane role."""
    nodes = rule.spec.nodes
    for selector in (nodes.selector, nodes.exclude):
        if selector is None:
            continue
        if CONTROL_PLANE in selector.match_labels:
            return True
        for requirement in selector.match_expressions:
            if requirement.key == CONTROL_PLANE and requirement.operator in SelectorOperator:
                return True
    return False
