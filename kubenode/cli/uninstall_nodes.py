"""Finds marks of ours on a Node after all programs have stopped. Pure.

Only what our programs write is removed. Annotations by which people instruct us
(`kubenode.io/pool`, `hands-off` ...) stay, and so does a cordon without a mark of ours.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kubenode.api.cordon import CORDONED_BY
from kubenode.runtime.kube.objects import Node, structs
from machine.machine import nodesync
from machine.names import MACHINE
from machine.nodesets.step import FINALIZER
from remedy.job import marks
from remedy.job.model import FENCED_BY, OUT_OF_SERVICE

AGENT = "kubenode-agent"
"""The field manager that the API server notes for conditions of the agent's detectors."""
_node = structs(Node)


@dataclass(frozen=True, slots=True)
class NodeCleanup:
    """The patches that clean a Node.

    node: merge patch of the Node, empty for no change.
    status: strategic merge patch of its status, empty for no change.
    """

    node: Mapping[str, Any] = field(default_factory=dict)
    status: Mapping[str, Any] = field(default_factory=dict)


def plan_cleanup(raw_node: Mapping[str, Any]) -> NodeCleanup:
    """Compute the patches.

    raw_node: the Node as the API server returned it, with its managedFields.
    """
    node = _node(msgspec.json.encode(raw_node))
    notes = node.metadata.annotations
    released = nodesync.release(node, notes.get(MACHINE, ""))
    job = marks.set_by(notes)
    gone: dict[str, str | None] = {**marks.removed(notes, job)} if job else {}
    gone |= dict.fromkeys(key for key in (CORDONED_BY, FENCED_BY) if key in notes)
    gone |= released.get("metadata", {}).get("annotations", {})
    spec: dict[str, Any] = dict(released.get("spec", {}))
    if CORDONED_BY in notes and node.spec.unschedulable:
        spec["unschedulable"] = None
    if FENCED_BY in notes:
        taints = spec.get("taints", raw_node.get("spec", {}).get("taints", []))
        spec["taints"] = [taint for taint in taints if taint["key"] != OUT_OF_SERVICE]
    labels = released.get("metadata", {}).get("labels", {})
    metadata: dict[str, Any] = {k: v for k, v in (("annotations", gone), ("labels", labels)) if v}
    if FINALIZER in (finalizers := node.metadata.finalizers):
        metadata["finalizers"] = [each for each in finalizers if each != FINALIZER]
    body = {k: v for k, v in (("metadata", metadata), ("spec", spec)) if v}
    lost = [
        {"$patch": "delete", "type": kind} for kind in sorted(set(list_agent_conditions(raw_node)))
    ]
    return NodeCleanup(body, {"status": {"conditions": lost}} if lost else {})


def list_agent_conditions(raw_node: Mapping[str, Any]) -> Iterator[str]:
    """Yield the types of existing conditions that the agent wrote last."""
    there = {condition["type"] for condition in raw_node.get("status", {}).get("conditions", ())}
    for entry in raw_node["metadata"].get("managedFields", ()):
        if entry.get("manager") != AGENT:
            continue
        written = entry.get("fieldsV1", {}).get("f:status", {}).get("f:conditions", {})
        for key in written:
            if key.startswith("k:") and (kind := json.loads(key[2:]).get("type")) in there:
                yield kind
