"""Detection of a common cause of faults that no repair fixes. Pure.

Nodes with the same kernel, image or component revision are compared with all other nodes of the
policy. If they fail `lift` times as often, repairing them one by one would repeat the fault. One
fault and one node are added to the others, so that few others prove nothing.
"""

from dataclasses import dataclass

from kubenode.api.duration import format_duration
from kubenode.api.v1alpha1.defenderpolicy import CommonCause
from kubenode.runtime.kube.objects import Node

COMPONENT_REVISION = "kubenode.io/component-revision"
LONGEST_VALUE = 253
CAUSE_TITLES = {"componentRevision": "component revision", "kernel": "kernel", "image": "image"}


@dataclass(frozen=True, slots=True)
class FailureShare:
    """Number of recent faults among a number of nodes."""

    faults: int
    nodes: int


def causes_of(node: Node) -> tuple[tuple[str, str], ...]:
    """Return what the node may have in common with others: (cause, value)."""
    info = node.status.node_info
    candidates = {
        "kernel": info.kernel_version,
        "image": info.os_image,
        "componentRevision": node.metadata.annotations.get(COMPONENT_REVISION, ""),
    }
    return tuple((cause, value[:LONGEST_VALUE]) for cause, value in candidates.items() if value)


def lift(having: FailureShare, others: FailureShare) -> float:
    """Return how many times more often nodes with the cause fail, 0 if there is nothing to
    compare.
    """
    if not having.nodes or not others.nodes:
        return 0.0
    return (having.faults / having.nodes) * (others.nodes + 1) / (others.faults + 1)


def shared(having: FailureShare, others: FailureShare, rule: CommonCause, *, known: bool) -> bool:
    """Return whether the faults share the cause.

    known: the cause was found before. It then ends at half of the thresholds.
    """
    part = 0.5 if known else 1.0
    return having.faults >= part * rule.min_faults and lift(having, others) >= part * rule.lift


def describe_cause(
    cause: str, value: str, having: FailureShare, others: FailureShare, rule: CommonCause
) -> str:
    """Return the message about the cause."""
    return (
        f"{CAUSE_TITLES[cause]} {value}: {having.faults} of {having.nodes} nodes with it failed"
        f" within {format_duration(rule.within)}, {others.faults} of {others.nodes} without it"
    )
