"""Translates the limits of a case into a DefenderPolicy. Pure."""

from datetime import timedelta
from typing import Any

from kubenode.api.duration import format_duration
from kubenode.api.v1alpha1 import DefenderPolicy, default_policy
from simulation.cases.form import Case, Policy

POOL = "kubenode.io/pool"
SMALLEST_FLEET = 20
"""Nodes of a case without a fleet: enough for percentages, so that one fault is no storm."""


def fleet_size(case: Case) -> int:
    """Return the number of nodes, the case's own included. At most half of them share its fault."""
    facts = case.facts
    if facts.fleet is not None and facts.fleet.nodes is not None:
        return facts.fleet.nodes
    same = facts.nodes_same_fault or 1
    return max(SMALLEST_FLEET, 2 * same, (facts.control_plane_total or 0) + 1)


def policy_of(case: Case) -> DefenderPolicy | None:
    """Return the policy; None if the case names no limit, for the default of Kube Defender."""
    policy = case.policy
    if not policy.model_fields_set:
        return None
    body = default_policy().to_dict()
    spec = body["spec"]
    if policy.applies_above_nodes is not None:
        # If a limit applies only above this number of nodes, the others apply to fewer nodes.
        above = fleet_size(case) > policy.applies_above_nodes
        spec["smallPool"] = {"nodes": policy.applies_above_nodes if above else 0}
    spec["limits"] += _limits(policy, fleet_size(case))
    if policy.node_cooldown_s is not None:
        within = format_duration(timedelta(seconds=policy.node_cooldown_s))
        spec["perNode"] = {"maxActs": 1, "within": within}
    return DefenderPolicy.from_user(body)


def _limits(policy: Policy, nodes: int) -> list[dict[str, Any]]:
    """Return the limits.

    Ours refuses when it is reached, the limit of a case when it is exceeded.
    """
    limits: list[dict[str, Any]] = []
    applies = nodes > (policy.applies_above_nodes or 0)
    for healthy in (
        None
        if policy.max_unhealthy_pct is None or not applies
        else f"{100 - int(policy.max_unhealthy_pct)}%",
        # A cordoned node is not healthy.
        None if policy.max_cordoned_pct is None else f"{100 - int(policy.max_cordoned_pct)}%",
        None if policy.max_unhealthy is None else max(nodes - policy.max_unhealthy, 0),
        policy.min_healthy,
    ):
        if healthy is not None:
            limits.append({"scope": "Cluster", "classes": _ALL, "minHealthy": healthy})
    if policy.max_repairs_per_hour is not None:
        count = policy.max_repairs_per_hour
        rate = {"count": count, "per": "1h", "burst": count}
        limits.append({"scope": "Cluster", "classes": _ALL, "rate": rate})
    if policy.max_control_plane_in_repair is not None:
        most = policy.max_control_plane_in_repair
        limits.append({"scope": "ControlPlane", "classes": _ALL, "maxConcurrent": most})
    if policy.pool_serial:
        limits.append({"scope": "Label", "label": POOL, "classes": _ALL, "maxConcurrent": 1})
    if policy.stop_pool_on_failure:
        # After a failed repair the node waits for a person, cordoned, so it is not healthy.
        limits.append({"scope": "Label", "label": POOL, "classes": _ALL, "minHealthy": nodes - 1})
    return limits


_ALL = ["Host", "Pods", "Node"]
