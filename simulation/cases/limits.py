"""The limits that a case says are in force, as a DefenderPolicy. Pure."""

from datetime import timedelta
from typing import Any

from kubenode.api.duration import format_duration
from kubenode.api.v1alpha1 import DefenderPolicy, default_policy
from simulation.cases.form import Case, Policy

POOL = "kubenode.io/pool"
SMALLEST_FLEET = 20
"""Nodes of a case that says nothing of its fleet: ratios mean something, one fault is no storm."""


def fleet_size(case: Case) -> int:
    """All nodes, the case's own one too; those of one fault are at most half of them."""
    facts = case.facts
    if facts.fleet is not None and facts.fleet.nodes is not None:
        return facts.fleet.nodes
    same = facts.nodes_same_fault or 1
    return max(SMALLEST_FLEET, 2 * same, (facts.control_plane_total or 0) + 1)


def policy_of(case: Case) -> DefenderPolicy | None:
    """None: the case names no limit, and Kube Defender has its default."""
    said = case.policy
    if not said.model_fields_set:
        return None
    body = default_policy().to_dict()
    spec = body["spec"]
    if said.applies_above_nodes is not None:
        # A limit that is only for more nodes than these leaves fewer to the other limits.
        above = fleet_size(case) > said.applies_above_nodes
        spec["smallPool"] = {"nodes": said.applies_above_nodes if above else 0}
    spec["limits"] += _limits(said, fleet_size(case))
    if said.node_cooldown_s is not None:
        within = format_duration(timedelta(seconds=said.node_cooldown_s))
        spec["perNode"] = {"maxActs": 1, "within": within}
    return DefenderPolicy.from_user(body)


def _limits(said: Policy, nodes: int) -> list[dict[str, Any]]:
    """A limit of ours holds when it is reached, one of a case trips when it is passed."""
    found: list[dict[str, Any]] = []
    applies = nodes > (said.applies_above_nodes or 0)
    for healthy in (
        None
        if said.max_unhealthy_pct is None or not applies
        else f"{100 - int(said.max_unhealthy_pct)}%",
        # A cordoned node is none of the healthy ones.
        None if said.max_cordoned_pct is None else f"{100 - int(said.max_cordoned_pct)}%",
        None if said.max_unhealthy is None else max(nodes - said.max_unhealthy, 0),
        said.min_healthy,
    ):
        if healthy is not None:
            found.append({"scope": "Cluster", "classes": _ALL, "minHealthy": healthy})
    if said.max_repairs_per_hour is not None:
        count = said.max_repairs_per_hour
        rate = {"count": count, "per": "1h", "burst": count}
        found.append({"scope": "Cluster", "classes": _ALL, "rate": rate})
    if said.max_control_plane_in_repair is not None:
        most = said.max_control_plane_in_repair
        found.append({"scope": "ControlPlane", "classes": _ALL, "maxConcurrent": most})
    if said.pool_serial:
        found.append({"scope": "Label", "label": POOL, "classes": _ALL, "maxConcurrent": 1})
    if said.stop_pool_on_failure:
        # A node whose repair failed waits for a person, cordoned: it is one that is not healthy.
        found.append({"scope": "Label", "label": POOL, "classes": _ALL, "minHealthy": nodes - 1})
    return found


_ALL = ["Host", "Pods", "Node"]
