"""Number of concurrent acts that the normal limits allow in a scope; a quota above it is needless.
Pure.
"""

from collections.abc import Iterator

from kubenode.api.share import is_ratio, share_of
from kubenode.api.v1alpha1.defenderpolicy import DefenderPolicySpec, LimitScope
from kubenode.api.v1alpha1.ladder import Disruption

CLASSES = (Disruption.HOST, Disruption.PODS, Disruption.NODE)
BY_DEFAULT = (Disruption.PODS, Disruption.NODE)


def at_once(spec: DefenderPolicySpec, label: str | None, members: int, everyone: int) -> int:
    """Return the number of acts for the class of which the limits of scope and cluster allow most.

    label: the label whose value is the scope, None for the cluster.
    members: nodes of the scope.
    everyone: nodes of the policy.
    """
    return max(
        min(_limits(spec, class_, label, members, everyone), default=members) for class_ in CLASSES
    )


def _limits(
    spec: DefenderPolicySpec, class_: Disruption, label: str | None, members: int, everyone: int
) -> Iterator[int]:
    for limit in spec.limits:
        share = limit.max_concurrent
        if share is None or class_ not in (limit.classes or BY_DEFAULT):
            continue
        if limit.scope is LimitScope.CLUSTER:
            total = everyone
        elif limit.label is not None and limit.label == label:
            total = members
        else:
            continue
        small = is_ratio(share) and total <= spec.small_pool.nodes
        yield 1 if small else max(1, share_of(share, total))
