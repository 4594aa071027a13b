"""The facts of a case as the answers that probes would give. Pure.

What the case does not say is left out: the probe has no answer for it, which is unknown.
"""

from collections.abc import Mapping, Sequence

from kubenode.cli.cases.form import Case, ConditionSignal, Facts, Workload
from rules.facts import Value

TIME_UNITS = frozenset({"chronyd", "chrony", "ntpd", "ntp", "ntpsec", "systemd-timesyncd"})
WINDOW_S = 600
"""Seconds that `host.restarts` counts over."""

_SAME: Mapping[str, str] = {
    "agent": "host.agent",
    "kubelet_state": "host.kubelet_state",
    "runtime_state": "host.runtime_state",
    "platform": "host.platform",
    "d_state_process": "host.d_state_process",
    "pid_max": "host.pid_max",
    "pid_top_owner": "host.pid_top_owner",
    "cgroup_count": "host.cgroup_count",
    "inotify_watches_max": "host.inotify_watches_max",
    "netns_count_high": "host.netns_count_high",
    "pods_stuck_terminating": "host.pods_stuck_terminating",
    "stuck_s": "host.stuck_s",
    "cloud_state": "power.cloud_state",
    "write_test": "write.write_test",
    "write_test_path": "write.write_test_path",
    "disk_used_pct": "disk.used_pct",
    "inodes_used_pct": "disk.inodes_used_pct",
    "disk_space_ok": "disk.space_ok",
    "images_unused_bytes": "disk.images_unused_bytes",
    "clock_synchronized": "clock.synchronized",
    "boot_clock_wrong": "clock.boot_clock_wrong",
    "nfs_server": "mount.nfs_server",
    "nodes_same_fault": "peers.nodes_same_fault",
    "recent_change": "peers.recent_change",
    "attached_node": "ready.attached_node",
    "statefulset_pods": "ready.statefulset_pods",
}
"""Facts that are a probe's field as they stand."""


def answers(case: Case) -> dict[str, Value]:
    """By `probe.field`, for the case's node."""
    facts = case.facts
    found: dict[str, Value | None] = {field: getattr(facts, fact) for fact, field in _SAME.items()}
    found["host.time_unit"] = _time_unit(facts.units)
    found["host.restarts"] = _restarts(facts)
    found["clock.offset_s"] = None if facts.clock_offset_s is None else abs(facts.clock_offset_s)
    found["device.role"] = _only(sorted(set(facts.device_role.values())))
    found["ready.status"] = _ready(case)
    found |= _workloads(facts.workloads)
    return {field: value for field, value in found.items() if value is not None}


def _time_unit(units: Mapping[str, str]) -> Value | None:
    """One daemon that runs is enough; of several that do not, a failed one tells most."""
    states = {state for unit, state in units.items() if unit.split(".")[0] in TIME_UNITS}
    return next((state for state in ("active", "failed", "inactive") if state in states), None)


def _restarts(facts: Facts) -> Value | None:
    """The most of any unit; of a longer time the share that falls into the probe's."""
    rates = [r.count * min(1.0, WINDOW_S / r.window_s) for r in facts.restarts]
    return max(rates, default=None)


def _only(values: Sequence[str]) -> Value | None:
    """Of several devices nobody knows which is meant."""
    return values[0] if len(values) == 1 else None


def _ready(case: Case) -> Value | None:
    """The live condition is on the Node object, which the signals wrote."""
    said = [
        signal.status
        for signal in case.signals
        if isinstance(signal, ConditionSignal)
        and signal.type == "Ready"
        and signal.node == case.node
    ]
    return said[-1] if said else None


def _workloads(workloads: Sequence[Workload] | None) -> dict[str, Value | None]:
    if workloads is None:
        return {}
    gangs = [w for w in workloads if w.gang]
    ages = [w.checkpoint_age_s for w in gangs if w.checkpoint_age_s is not None]
    return {"ready.gang_pods": bool(gangs), "ready.checkpoint_age_s": max(ages, default=None)}
