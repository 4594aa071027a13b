"""Do faults share a cause that no repair cures? Pure.

Nodes with the same kernel, image or component revision are held against all others of the policy:
when they fail `lift` times as often, repairing them one by one repeats the fault. One fault more
than there is is taken for granted among the others, so that few of them prove nothing.
"""

from dataclasses import dataclass

from kubenode.api.duration import format_duration
from kubenode.api.v1alpha1.defenderpolicy import CommonCause
from kubenode.runtime.kube.objects import Node

COMPONENT_REVISION = "kubenode.io/component-revision"
LONGEST_VALUE = 253
WORDS = {"componentRevision": "component revision", "kernel": "kernel", "image": "image"}


@dataclass(frozen=True, slots=True)
class FailureShare:
    """How many of some nodes failed lately."""

    faults: int
    nodes: int


def causes_of(node: Node) -> tuple[tuple[str, str], ...]:
    """What this node may have in common with others: (cause, value)."""
    info = node.status.node_info
    found = {
        "kernel": info.kernel_version,
        "image": info.os_image,
        "componentRevision": node.metadata.annotations.get(COMPONENT_REVISION, ""),
    }
    return tuple((cause, value[:LONGEST_VALUE]) for cause, value in found.items() if value)


def lift(having: FailureShare, others: FailureShare) -> float:
    """How many times more often those that have it fail; 0 when there is nothing to compare."""
    if not having.nodes or not others.nodes:
        return 0.0
    return (having.faults / having.nodes) * (others.nodes + 1) / (others.faults + 1)


def shared(having: FailureShare, others: FailureShare, rule: CommonCause, *, known: bool) -> bool:
    """known  it was found before: it is over at half of what finds it"""
    part = 0.5 if known else 1.0
    return having.faults >= part * rule.min_faults and lift(having, others) >= part * rule.lift


def in_words(
    cause: str, value: str, having: FailureShare, others: FailureShare, rule: CommonCause
) -> str:
    return (
        f"{WORDS[cause]} {value}: {having.faults} of {having.nodes} nodes with it failed within"
        f" {format_duration(rule.within)}, {others.faults} of {others.nodes} without it"
    )
