"""Builds the answers of probes for a case.

The fields of `ready` are computed by production code from a described Node and its pods, those of
an agent from a described host (simulation.cases.host). The others (_DECLARED) have the values of
the case, if an agent or the operator declares them (`is_produced`): no other value reaches a rule.
A dead agent answers nothing. A field that the case does not give is unknown.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from agent.probes.host import PRODUCED as OF_AGENTS
from kubenode.api.meta import format_time
from remedy.hostprobes.answer_writer import OVERDUE, ready
from remedy.hostprobes.desk import PRODUCED as OF_THE_OPERATOR
from remedy.hostprobes.gangs import GANG_MARKS
from rules.facts import Value
from simulation.cases.form import Case, CaseWorkload, ConditionSignal
from simulation.cases.host import host_answers

_DECLARED: Mapping[str, str] = {
    "agent": "host.agent",
    "kubelet_state": "host.kubelet_state",
    "runtime_state": "host.runtime_state",
    "cloud_state": "power.cloud_state",
    "write_test": "write.write_test",
    "write_test_path": "write.write_test_path",
    "images_unused_bytes": "disk.images_unused_bytes",
}
"""Facts of the case that equal the field of a probe: what an agent only finds out on a network, by
a write to a read-only file system, or of a runtime or provider. A program must declare the value.
"""


def answers(case: Case) -> dict[str, Value]:
    """Return the answers for the case's node, by `probe.field`."""
    facts = case.facts
    by_field: dict[str, Value | None] = {
        field: getattr(facts, fact) for fact, field in _DECLARED.items()
    }
    by_field |= host_answers(facts)
    if facts.agent == "dead":
        by_field = {name: value for name, value in by_field.items() if name not in OF_AGENTS}
        by_field["host.agent"] = facts.agent
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
