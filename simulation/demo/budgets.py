"""How many nodes may be disrupted, computed in a different way than Kube Defender does.

The observer compares what happened with these numbers. Nothing here may import `defender`: the
observer must not repeat its mistakes. The rules are those of `limits` in docs/reference/api.md,
DefenderPolicy; docs/reference/small-clusters.md has the arithmetic.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kubenode.api.v1alpha1 import DefenderPolicy, Disruption
from kubenode.api.v1alpha1.defenderpolicy import Limit, LimitScope

BY_DEFAULT = frozenset({Disruption.PODS.value, Disruption.NODE.value})
CONTROL_PLANE_LABEL = "node-role.kubernetes.io/control-plane"


@dataclass(frozen=True, slots=True)
class Budget:
    """One limit applied to one group of nodes.

    key: identifies limit and group.
    classes: disruption classes of the permits that count.
    at_most: nodes that may be disrupted at once; None for no such limit.
    keep: nodes that must stay healthy when one more is disrupted; 0 for no such limit.
    rate: permits per second; None for no such limit.
    burst: permits at once, if there is a rate.
    """

    key: str
    name: str
    members: frozenset[str]
    classes: frozenset[str]
    at_most: int | None
    keep: int
    rate: float | None
    burst: int


def budgets(
    policy: DefenderPolicy,
    labels: Mapping[str, Mapping[str, str]],
    dark: Mapping[str, frozenset[str]] | None = None,
) -> list[Budget]:
    """Return every budget of `policy`. Fleet limits span clusters and are not included.

    labels: node name to labels.
    dark: scope whose breaker is open to its nodes, which no other scope counts.
    """
    small = policy.spec.small_pool.nodes
    collected = []
    for index, limit in enumerate(policy.spec.limits):
        for name, members in _groups(limit, labels):
            lit = members - _elsewhere(name, dark or {})
            collected.append(_budget(f"{index} {name}", limit, name, lit, small))
    return collected


def _elsewhere(scope: str, dark: Mapping[str, frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*(nodes for other, nodes in dark.items() if other != scope))


def _groups(
    limit: Limit, labels: Mapping[str, Mapping[str, str]]
) -> Iterable[tuple[str, frozenset[str]]]:
    if limit.scope is LimitScope.CLUSTER:
        yield "cluster", frozenset(labels)
    elif limit.scope is LimitScope.CONTROL_PLANE:
        yield (
            "control-plane",
            frozenset(n for n, own in labels.items() if CONTROL_PLANE_LABEL in own),
        )
    elif limit.scope is LimitScope.LABEL and limit.label is not None:
        groups: dict[str, set[str]] = {}
        for node, own in labels.items():
            if limit.label in own:
                groups.setdefault(own[limit.label], set()).add(node)
        for value, members in sorted(groups.items()):
            yield f"{limit.label}={value}", frozenset(members)


def _budget(key: str, limit: Limit, name: str, members: frozenset[str], small: int) -> Budget:
    size = len(members)
    at_most = _most(limit.max_concurrent, size)
    keep = _keep(limit.min_healthy, size)
    if size <= small and limit.scope is LimitScope.LABEL:
        # smallPool: percentages do not apply, one at a time, all others healthy.
        at_most = 1 if at_most is None else min(at_most, 1)
        keep = limit.min_healthy if isinstance(limit.min_healthy, int) else 0
    rate = None
    if limit.rate is not None:
        rate = limit.rate.count / limit.rate.per.total_seconds()
    return Budget(
        key=key,
        name=name,
        members=members,
        classes=frozenset(c.value for c in limit.classes) if limit.classes else BY_DEFAULT,
        at_most=at_most,
        keep=keep,
        rate=rate,
        burst=limit.rate.burst if limit.rate is not None else 0,
    )


def _most(share: int | str | None, size: int) -> int | None:
    """Return a share as a number of nodes: a percentage rounds down, but to no less than one."""
    if share is None or isinstance(share, int):
        return share
    return max(1, size * int(share.removesuffix("%")) // 100)


def _keep(share: int | str | None, size: int) -> int:
    if share is None or isinstance(share, int):
        return share or 0
    return size * int(share.removesuffix("%")) // 100
