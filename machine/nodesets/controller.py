"""Reconcile NodeClasses and NodeSets: make the MachineClass and MachineSet of each."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from kubenode.api.conditions import ConditionUpdate, find_condition, set_conditions
from kubenode.api.meta import Condition, ConditionStatus
from kubenode.api.readiness import set_readiness
from kubenode.api.v1alpha1 import MachineClass, MachineSet, NodeClass, NodeSet
from kubenode.api.v1alpha1.nodeclass import NODE_CLASS_READY
from kubenode.api.v1alpha1.nodeset import NodeSetConditionType
from kubenode.runtime.controller.result import DONE, Result
from kubenode.runtime.kube.errors import AlreadyExists
from kubenode.runtime.kube.paths import custom
from machine.ground import SharedCaches
from machine.names import NODE_SET
from machine.nodesets.conversion import Conversion, convert_class, convert_set, list_changes

CONVERTING = ConditionUpdate(
    ConditionStatus.UNKNOWN, "Converting", "the converted object has not been reconciled yet"
)
Made = TypeVar("Made", MachineClass, MachineSet)


class ConversionActs:
    """Writes of converted objects and of the status of their sources."""

    def __init__(self, ground: SharedCaches) -> None:
        self._ground = ground

    async def converge(self, existing: Made | None, conversion: Conversion) -> Made | None:
        """Create or change the object. Return it if it is as converted, else None."""
        body = conversion.body
        if body is None:
            return None
        if existing is None:
            await self._create(body)
            return None
        change = list_changes(existing, body["spec"])
        if not change:
            return existing
        plural, meta = existing.resource.plural, existing.metadata
        versions = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        self._ground.fence.check()
        await self._ground.kube.patch(
            custom(plural, meta.name), {"metadata": versions, "spec": change}
        )
        return None

    async def _create(self, body: dict[str, Any]) -> None:
        kind = MachineSet if body["kind"] == MachineSet.resource.kind else MachineClass
        self._ground.fence.check()
        try:
            await self._ground.kube.create(custom(kind.resource.plural), body)
        except AlreadyExists:
            return  # the cache does not show it yet

    async def write(self, source: NodeClass | NodeSet, status: Mapping[str, Any]) -> None:
        """Write the changed fields of the status."""
        before = source.status.to_dict()
        change = {key: value for key, value in status.items() if before.get(key) != value}
        if not change:
            return
        meta = source.metadata
        versions = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        path = custom(source.resource.plural, meta.name, "status")
        self._ground.fence.check()
        await self._ground.kube.patch(path, {"metadata": versions, "status": change})


class NodeClasses:
    """Reconciler of NodeClasses."""

    def __init__(self, ground: SharedCaches) -> None:
        self._ground, self._acts = ground, ConversionActs(ground)
        self.controller = ground.controller("nodeclasses", self.reconcile)
        self.controller.watch(ground.node_classes)
        self.controller.watch(ground.classes)

    async def reconcile(self, name: str) -> Result:
        node_class = self._ground.node_classes.get(name)
        if node_class is None or node_class.metadata.deletion_timestamp is not None:
            return DONE
        existing = self._ground.classes.get(name)
        conversion = convert_class(node_class, existing)
        made = await self._acts.converge(existing, conversion)
        update = copied(made, NODE_CLASS_READY) if conversion.body else conversion.condition
        count = node_class.status.machines if made is None else made.status.machines
        await self._acts.write(node_class, self._status(node_class, update, count))
        return DONE

    def _status(
        self, node_class: NodeClass, ready: ConditionUpdate, machines: int
    ) -> dict[str, Any]:
        conditions = conditions_of(self._ground, node_class, {NODE_CLASS_READY: ready})
        return {
            "observedGeneration": node_class.metadata.generation,
            "machines": machines,
            "conditions": [condition.to_dict() for condition in conditions],
        }


class NodeSets:
    """Reconciler of NodeSets."""

    def __init__(self, ground: SharedCaches) -> None:
        self._ground, self._acts = ground, ConversionActs(ground)
        self.controller = ground.controller("nodesets", self.reconcile)
        self.controller.watch(ground.node_sets)
        self.controller.watch(ground.machine_sets)
        self.controller.watch(ground.node_classes, self._list_sets)

    async def reconcile(self, name: str) -> Result:
        node_set = self._ground.node_sets.get(name)
        if node_set is None or node_set.metadata.deletion_timestamp is not None:
            return DONE
        node_class = self._ground.node_classes.get(node_set.spec.node_class)
        existing = self._ground.machine_sets.get(name)
        conversion = convert_set(node_set, node_class, existing)
        made = await self._acts.converge(existing, conversion)
        await self._acts.write(node_set, self._status(node_set, conversion, made))
        return DONE

    def _status(
        self, node_set: NodeSet, conversion: Conversion, made: MachineSet | None
    ) -> dict[str, Any]:
        updates: dict[str, ConditionUpdate] = {
            NodeSetConditionType.CONVERTED: conversion.condition,
            NodeSetConditionType.SCALED: copied(made, NodeSetConditionType.SCALED),
            NodeSetConditionType.HEALTHY: copied(made, NodeSetConditionType.HEALTHY),
        }
        before, name = node_set.status, node_set.metadata.name
        return {
            "observedGeneration": node_set.metadata.generation,
            "replicas": before.replicas if made is None else made.status.replicas,
            "runningReplicas": before.running_replicas if made is None else made.status.ready,
            "selector": f"{NODE_SET}={name}" if conversion.body else before.selector,
            "conditions": [
                condition.to_dict() for condition in conditions_of(self._ground, node_set, updates)
            ],
        }

    def _list_sets(self, key: str, old: NodeClass | None, new: NodeClass | None) -> Iterable[str]:
        sets = self._ground.node_sets.cache.values()
        return [each.metadata.name for each in sets if each.spec.node_class == key]


def copied(made: MachineClass | MachineSet | None, type_: str) -> ConditionUpdate:
    """Return the condition of the converted object, Unknown until it describes its spec."""
    if made is None or made.status.observed_generation != made.metadata.generation:
        return CONVERTING
    condition = find_condition(made.status.conditions, type_)
    if condition is None:
        return CONVERTING
    return ConditionUpdate(condition.status, condition.reason, condition.message)


def conditions_of(
    ground: SharedCaches, source: NodeClass | NodeSet, updates: Mapping[str, ConditionUpdate]
) -> list[Condition]:
    """Return the conditions of the source with these updates."""
    generation, now = source.metadata.generation, ground.clock.now()
    conditions = set_conditions(
        source.status.conditions, updates.items(), generation=generation, now=now
    )
    return set_readiness(source.kind, conditions, generation=generation, now=now)
