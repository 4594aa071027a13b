"""A fleet whose Machines have all components already, loaded into the embedded API server."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.first_heal import node_list, wide_limits
from bench.rollout import component, component_set, machine
from support.component_agents import HOST

from kubenode.api.v1alpha1 import Machine, MachineComponent
from kubenode.api.v1alpha1.machinework import DesiredState
from kubenode.runtime.components import wire
from machine.componentset.revisions import AssignableRevision, named
from machine.names import LEASES
from simulation.apiserver import EmbeddedApiServer

NODES = "nodes"
OPERATORS = ("labels", "annotations", "finalizers")
"""Metadata that the operator writes."""


@dataclass
class Example:
    """A Machine, its Node and the sets as the operator left them; {}: it has not seen any yet."""

    machine: dict[str, Any] = field(default_factory=dict)
    node: dict[str, Any] = field(default_factory=dict)
    sets: dict[str, dict[str, Any]] = field(default_factory=dict)


class Fleet:
    """What is there at first: Machines with all components in their first version, by sets."""

    def __init__(self, machines: int, components: int) -> None:
        self.families = [f"c{number:02d}" for number in range(components)]
        self.needs = {f: self.families[n // 4] for n, f in enumerate(self.families[1:])}
        self.machines = machines

    def load(self, server: EmbeddedApiServer, example: Example) -> None:
        versions = [self._component(f, v) for f in self.families for v in (1, 2)]
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": LEASES}}
        sets = [_left(component_set(f), example.sets.get(f, {})) for f in self.families]
        server.load([space, wide_limits(), *versions, *sets])
        made = [
            _made(v, example.sets.get(f, {}))
            for f, v in zip(self.families, versions[::2], strict=True)
        ]
        for number, node in enumerate(node_list(self.machines)["items"]):
            name = node["metadata"]["name"]
            node["metadata"].pop("annotations")
            node["status"] = {"conditions": [{"type": "Ready", "status": "True", "reason": "Up"}]}
            server.load([_like(node, example.node, number)])
            body = _like(_installed(machine(name, number), made), example.machine, number)
            if "nodeRef" in body["status"]:
                body["status"]["nodeRef"]["uid"] = object_of(server, NODES, name)["metadata"]["uid"]
            server.load([body, _lease(name)] if example.machine else [body])

    def _component(self, family: str, version: int) -> dict[str, Any]:
        body = component(family, version)
        if family in self.needs:
            body["spec"]["dependsOn"] = [{"component": self.needs[family]}]
        return body


def _made(body: dict[str, Any], set_: dict[str, Any]) -> AssignableRevision:
    """The revision of this version, as the operator named it where it has seen the set."""
    plain = MachineComponent.from_user(body).spec.model_dump(mode="json", by_alias=True)
    spec, running = wire.spec_of(plain), DesiredState.RUNNING
    name = set_.get("status", {}).get("currentRevision") or named(spec, {}, running, {})
    return AssignableRevision(name, body["metadata"]["name"], spec, {}, running, {})


def _installed(body: dict[str, Any], made: Sequence[AssignableRevision]) -> dict[str, Any]:
    """The Machine with these components, as sets assigned them and its agent tells."""
    body["status"] = {"host": HOST, "bootstrap": {"certificateExpiresAt": "2099-01-01T00:00:00Z"}}
    read = Machine.from_user(body)
    assigned, told = [], []
    for one in made:
        family = one.spec.component
        both = {"name": family, "revision": one.name, "configHash": one.hash_on(read)}
        assigned.append({**both, "component": one.component, "set": family})
        told.append({**both, "state": "Healthy", "version": one.spec.version, "attempt": 1})
    body["spec"]["components"], body["status"]["components"] = assigned, told
    return body


def _like(body: dict[str, Any], example: dict[str, Any], number: int) -> dict[str, Any]:
    """The object with what the operator wrote to the example, which was number 0."""
    if not example:
        return body
    name, first = body["metadata"]["name"], example["metadata"]["name"]
    text = json.dumps(example).replace(first, name).replace("zone-0", f"zone-{number % 3}")
    seen = json.loads(text)
    there = _left(body, seen)
    there["status"] |= body["status"]
    if written := {e["name"]: e for e in seen.get("spec", {}).get("components", ())}:
        for entry in there["spec"]["components"]:
            entry |= {k: v for k, v in written[entry["name"]].items() if k not in entry}
    return there


def _left(body: dict[str, Any], seen: dict[str, Any]) -> dict[str, Any]:
    """With the metadata and status that the operator wrote."""
    if not seen:
        return body
    marks = {k: v for k, v in seen["metadata"].items() if k in OPERATORS}
    meta = {**body["metadata"], **marks}
    return {**body, "metadata": meta, "status": dict(seen.get("status", {}))}


def _lease(name: str) -> dict[str, Any]:
    """Of an agent that lives while the operator does not."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": LEASES},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 120},
    }


def object_of(server: EmbeddedApiServer, resource: str, name: str) -> dict[str, Any]:
    record = server.store.collection(resource).get(("", name))
    assert record is not None
    return record.obj
