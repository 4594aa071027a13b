"""Builds the answers of probes for a case.

The fields of `ready` and `disk.data_volumes` are computed by production code from a described Node,
its pods and its mount table. The other fields have the values of the case, if an agent or the
operator declares them (`is_produced`): no other value reaches a rule. A field that the case does
not give has no answer, so it is unknown.
"""

import tempfile
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from agent.detectors.checks.host.mounts import TABLE
from agent.probes import readings
from agent.probes.host import PRODUCED as OF_AGENTS
from kubenode.api.meta import format_time
from remedy.hostprobes.answer_writer import OVERDUE, ready
from remedy.hostprobes.desk import PRODUCED as OF_THE_OPERATOR
from remedy.hostprobes.gangs import GANG_MARKS
from rules.facts import Value
from simulation.cases.form import Case, CaseWorkload, ConditionSignal, Facts

TIME_UNITS = frozenset({"chronyd", "chrony", "ntpd", "ntp", "ntpsec", "systemd-timesyncd"})
STATES = {"failed_after_restart": "error"}
"""States of the runtime that an agent reports as another one: the unit does not run."""
POINTS = {"root": "/", "runtime": "/var/lib/containerd", "data_volume": "/var/lib/kubelet/pods/x"}
_SAME: Mapping[str, str] = {
    "agent": "host.agent",
    "kubelet_state": "host.kubelet_state",
    "runtime_state": "host.runtime_state",
    "platform": "host.platform",
    "d_state_process": "host.d_state_process",
    "pid_max": "host.pid_max",
    "cgroup_count": "host.cgroup_count",
    "inotify_watches_max": "host.inotify_watches_max",
    "netns_count_high": "host.netns_count_high",
    "cloud_state": "power.cloud_state",
    "write_test": "write.write_test",
    "write_test_path": "write.write_test_path",
    "disk_used_pct": "disk.used_pct",
    "inodes_used_pct": "disk.inodes_used_pct",
    "disk_space_ok": "disk.space_ok",
    "images_unused_bytes": "disk.images_unused_bytes",
    "clock_synchronized": "clock.synchronized",
    "boot_clock_wrong": "clock.boot_clock_wrong",
}
"""Facts of the case that equal the field of a probe."""


def answers(case: Case) -> dict[str, Value]:
    """Return the answers for the case's node, by `probe.field`."""
    facts = case.facts
    by_field: dict[str, Value | None] = {
        field: getattr(facts, fact) for fact, field in _SAME.items()
    }
    by_field["host.runtime_state"] = STATES.get(facts.runtime_state or "", facts.runtime_state)
    by_field["host.time_unit"] = _time_unit(facts.units)
    by_field["clock.offset_s"] = None if facts.clock_offset_s is None else abs(facts.clock_offset_s)
    by_field["disk.data_volumes"] = _data_volumes(facts)
    by_field |= _ready(case)
    return {
        field: value
        for field, value in by_field.items()
        if value is not None and is_produced(field, value)
    }


def is_produced(field: str, value: Value) -> bool:
    """Return whether a production program declares that it may answer the field with the value."""
    if field not in OF_AGENTS and field not in OF_THE_OPERATOR:
        return False
    choices = (*OF_AGENTS.get(field, ()), *OF_THE_OPERATOR.get(field, ()))
    return not choices or value in choices


def _time_unit(units: Mapping[str, str]) -> Value | None:
    """Return the state of time synchronisation: a running daemon decides, else a failed one."""
    states = {state for unit, state in units.items() if unit.split(".")[0] in TIME_UNITS}
    return next((state for state in ("active", "failed", "inactive") if state in states), None)


def _data_volumes(facts: Facts) -> Value | None:
    """Return what the agent would read in the mount table of a host with the case's devices."""
    if not facts.device_role:
        return None
    devices = {"root-disk": "root"} | facts.device_role
    lines = [
        f"{number} 1 8:{number} / {POINTS[role]} rw - ext4 /dev/{name} rw\n"
        for number, (name, role) in enumerate(devices.items())
    ]
    with tempfile.TemporaryDirectory() as root:
        table = Path(root, TABLE)
        table.parent.mkdir(parents=True)
        table.write_text("".join(lines))
        return readings.has_data_volumes(root)


def _ready(case: Case) -> dict[str, Value | None]:
    """Return what the operator reads in the Node with the case's signals, and in its pods."""
    statuses = [
        signal.status
        for signal in case.signals
        if isinstance(signal, ConditionSignal)
        and signal.type == "Ready"
        and signal.node == case.node
    ]
    conditions = [{"type": "Ready", "status": status} for status in statuses[-1:]]
    facts = case.facts
    answer = ready({"status": {"conditions": conditions}}, _pods(case), case.now)
    known = {
        "status": bool(statuses),
        "statefulset_pods": facts.statefulset_pods is not None,
        "gang_pods": facts.workloads is not None,
        "pods_stuck_terminating": facts.pods_stuck_terminating is not None,
        "oldest_pending_s": facts.stuck_s is not None,
    }
    return {f"ready.{field}": answer[field] for field, is_known in known.items() if is_known}


def _pods(case: Case) -> Iterator[dict[str, Any]]:
    """Yield the pods that the case describes. `_ready` leaves out fields about any others."""
    facts = case.facts
    if facts.statefulset_pods:
        owners = [{"apiVersion": "apps/v1", "kind": "StatefulSet", "controller": True}]
        yield {"metadata": {"ownerReferences": owners}, "status": {"phase": "Running"}}
    for workload in facts.workloads or ():
        yield _pod_of(workload)
    overdue = format_time(case.now - 2 * OVERDUE)
    for _ in range(facts.pods_stuck_terminating or 0):
        yield {"metadata": {"deletionTimestamp": overdue}, "status": {"phase": "Running"}}
    if facts.stuck_s is not None:
        bound = format_time(case.now - timedelta(seconds=facts.stuck_s))
        yield {"metadata": {"creationTimestamp": bound}, "status": {"phase": "Pending"}}


def _pod_of(workload: CaseWorkload) -> dict[str, Any]:
    marks = {min(GANG_MARKS): "x"} if workload.gang else {}
    return {"metadata": {"labels": marks}, "status": {"phase": "Running"}}
