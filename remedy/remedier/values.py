"""Computes the built-in facts of a node that need no detector: ages, readiness, owners, history.
Pure.

Ages and durations are seconds. None is unknown, and unknown never matches.
"""

import math
from collections.abc import Sequence
from datetime import datetime, timedelta

from kubenode.api.cordon import CordonState
from kubenode.api.foreign import foreign_mark
from kubenode.runtime.kube.objects import Node
from remedy.remedier import hostevents
from remedy.remedier.fleet import CLUSTER, GROUP_LABELS, NodeGroups, figures, is_ready
from remedy.remedier.past import Past
from rules.builtin import MAINTENANCE_UNTIL
from rules.facts import ConditionFact, Gap, HostEventFact
from rules.unheard import unheard

Value = bool | int | float | str

CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
SOMEBODY = "somebody"
"""`node.cordonedBy` of a node that is unschedulable without our mark."""


def values(
    node: Node,
    fleet: NodeGroups,
    past: Sequence[Past],
    booted_at: datetime | None,
    now: datetime,
    host_events: Sequence[HostEventFact] = (),
    lease_age: float | None = None,
    gaps: Sequence[Gap] = (),
    ready: ConditionFact | None = None,
    clock_offset: float | None = None,
) -> dict[str, Value | None]:
    """Return the built-in facts by name.

    booted_at: None: no boot was observed or reported
    lease_age: seconds; None is unknown
    gaps: times in which no reporter could reach us
    ready: the condition Ready by our own clock; None: it was never reported
    clock_offset: seconds by which the host's clock is ahead; None is unknown
    """
    info = node.status.node_info
    facts: dict[str, Value | None] = {
        "node.age": _since(node.metadata.creation_timestamp, now),
        "node.sinceBoot": _since(booted_at, now),
        "node.ready": is_ready(node),
        "node.notReadyFor": not_ready_for(ready, now, gaps),
        "node.leaseAge": lease_age,
        "node.clockOffset": clock_offset,
        "node.isControlPlane": CONTROL_PLANE in node.metadata.labels,
        "node.cordonedBy": cordoned_by(node),
        "node.foreignOwner": foreign_owner(node),
        "node.attempts24h": sum(1 for p in past if p.acted and now - p.created < DAY),
        "node.lastRepairAgo": last_repair_ago(past, now),
        "node.kernel": info.kernel_version or None,
        "node.osImage": info.os_image or None,
        "node.runtimeVersion": info.container_runtime_version or None,
        "node.gpuCount": gpu_count(node),
        "maintenance.active": maintenance(node, now) or hostevents.maintenance(host_events, now),
    }
    groups = {"cluster": CLUSTER} | {
        scope: (scope, node.metadata.labels.get(label, "")) for scope, label in GROUP_LABELS.items()
    }
    for scope, group in groups.items():
        for what, value in figures(fleet.count(group)).items():
            facts[f"{scope}.{what}"] = value
    return facts


DAY = timedelta(hours=24)
GATHERED = frozenset(
    {
        "node.age", "node.sinceBoot", "node.ready", "node.notReadyFor", "node.leaseAge",
        "node.clockOffset", "node.isControlPlane",
        "node.cordonedBy", "node.foreignOwner", "node.attempts24h", "node.lastRepairAgo",
        "node.kernel", "node.osImage", "node.runtimeVersion", "node.gpuCount",
        "maintenance.active",
    }
) | {
    f"{scope}.{what}"
    for scope in ("cluster", *GROUP_LABELS)
    for what in ("nodes", "unhealthy", "unhealthyRatio")
}  # fmt: skip
OF_THE_FLEET = frozenset(
    name for name in GATHERED if name.split(".")[0] in ("cluster", *GROUP_LABELS)
)
OF_TIME = frozenset(
    {
        "node.age",
        "node.sinceBoot",
        "node.notReadyFor",
        "node.leaseAge",
        "node.clockOffset",
        "node.lastRepairAgo",
        "node.attempts24h",
        "maintenance.active",
    }
)
"""Facts that change by time alone."""


def _since(at: datetime | None, now: datetime) -> float | None:
    return None if at is None else max((now - at).total_seconds(), 0.0)


def not_ready_for(
    ready: ConditionFact | None, now: datetime, gaps: Sequence[Gap] = ()
) -> float | None:
    """Return for how many seconds Ready has not been True; 0 while it is True, None without a Ready
    condition or while it is doubted. It uses our clock, since the host's may be wrong, and leaves
    out gaps since the kubelet's last report.
    """
    if ready is None or ready.doubted:
        return None
    if ready.status == "True":
        return 0.0
    return _since(ready.since + unheard(gaps, max(ready.since, ready.received_at), now), now)


def gpu_count(node: Node) -> int | None:
    """Return the GPUs that pods may get, without those that their device plugin removed; None if
    unknown.
    """
    devices = node.status.allocatable
    if devices is None:
        return None
    quantities = (devices.nvidia, devices.amd, devices.intel, devices.intel_xe)
    counts = [quantity for quantity in quantities if quantity]
    return sum(map(int, counts)) if all(map(str.isdecimal, counts)) else None


def cordoned_by(node: Node) -> str:
    """Return the name of our job, else the mark of another owner, SOMEBODY for a cordon without
    marks, or "" for a schedulable node.
    """
    if not node.spec.unschedulable:
        return ""
    state = CordonState(node.spec.unschedulable, node.metadata.annotations)
    return next(iter((*state.jobs, *state.marks)), SOMEBODY)


def foreign_owner(node: Node) -> bool:
    """Report whether somebody else is about to take the node down or works on it."""
    if node.metadata.deletion_timestamp is not None:
        return True
    meta = node.metadata
    return bool(foreign_mark((t.key for t in node.spec.taints), meta.annotations, meta.labels))


def maintenance(node: Node, now: datetime) -> bool:
    """Report whether the node's annotation declares maintenance now. An invalid time counts as
    lasting, since its author wanted no repairs.
    """
    text = node.metadata.annotations.get(MAINTENANCE_UNTIL)
    if text is None:
        return False
    try:
        until = datetime.fromisoformat(text)
    except ValueError:
        return True
    return until.tzinfo is None or until > now


def last_repair_ago(past: Sequence[Past], now: datetime) -> float:
    """Return the seconds since the last repair; infinite for a node that was never repaired, so
    that `above` holds.
    """
    ended = [p.closed or p.created for p in past if p.acted]
    return max((now - max(ended)).total_seconds(), 0.0) if ended else math.inf
