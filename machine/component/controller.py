"""Reconcile MachineComponents: count their use, validate them, and protect those in use."""

from collections.abc import Iterable
from typing import Any

from kubenode.api.conditions import set_condition
from kubenode.api.readiness import set_readiness
from kubenode.api.v1alpha1 import Machine, MachineComponent, MachineComponentSet
from kubenode.api.v1alpha1.machinecomponent import COMPONENT_VALID
from kubenode.runtime.components.wire import spec_of
from kubenode.runtime.controller.result import DONE, Result
from kubenode.runtime.kube.paths import custom
from machine.component.step import finalizers, valid
from machine.ground import SharedCaches

OF_COMPONENT = "component"
"""Index of Machines and of sets by the MachineComponents that they name."""
SETTLE = 2.0
"""Seconds for which changes of Machines are collected for one count."""
MOST_SETS = 64
"""Greatest number of sets to list, as the CRD allows."""
PLURAL = MachineComponent.resource.plural


class MachineComponents:
    """Reconciler of MachineComponents."""

    def __init__(self, ground: SharedCaches) -> None:
        self._ground = ground
        ground.machines.add_index(OF_COMPONENT, components_of_machine)
        ground.component_sets.add_index(OF_COMPONENT, components_of_set)
        self.controller = ground.controller("machinecomponents", self.reconcile)
        self.controller.watch(ground.components)
        self.controller.watch(ground.machines, self._machine_changed)
        self.controller.watch(ground.component_sets, self._set_changed)

    async def reconcile(self, name: str) -> Result:
        component = self._ground.components.get(name)
        if component is None:
            return DONE
        machines = len(self._ground.machines.by(OF_COMPONENT, name))
        sets = sorted(s.metadata.name for s in self._ground.component_sets.by(OF_COMPONENT, name))
        meta = component.metadata
        remaining = finalizers(
            meta.finalizers,
            deleting=meta.deletion_timestamp is not None,
            used=bool(machines or sets),
        )
        versions = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        if remaining != meta.finalizers:
            self._ground.fence.check()
            body = {"metadata": {**versions, "finalizers": remaining}}
            await self._ground.kube.patch(custom(PLURAL, name), body)
            return DONE  # the write causes another reconcile
        new, before = self._status(component, machines, sets), component.status.to_dict()
        if change := {key: value for key, value in new.items() if before.get(key) != value}:
            self._ground.fence.check()
            path = custom(PLURAL, name, "status")
            await self._ground.kube.patch(path, {"metadata": versions, "status": change})
        return DONE

    def _status(self, component: MachineComponent, machines: int, sets: list[str]) -> Any:
        update = valid(spec_of(component.spec.model_dump(mode="json", by_alias=True)))
        generation, now = component.metadata.generation, self._ground.clock.now()
        conditions = set_condition(
            component.status.conditions,
            COMPONENT_VALID,
            update,
            generation=generation,
            now=now,
        )
        conditions = set_readiness(
            MachineComponent.__name__, conditions, generation=generation, now=now
        )
        return {
            "observedGeneration": generation,
            "machines": machines,
            "sets": sets[:MOST_SETS],
            "conditions": [condition.to_dict() for condition in conditions],
        }

    def _machine_changed(self, key: str, old: Machine | None, new: Machine | None) -> tuple[()]:
        before, after = (set(components_of_machine(m)) if m else set() for m in (old, new))
        self._later(before ^ after)
        return ()

    def _set_changed(
        self, key: str, old: MachineComponentSet | None, new: MachineComponentSet | None
    ) -> tuple[()]:
        before, after = (set(components_of_set(s)) if s else set() for s in (old, new))
        self._later(before ^ after)
        return ()

    def _later(self, names: Iterable[str]) -> None:
        for name in names:
            self.controller.queue.add_after(name, SETTLE)


def components_of_machine(machine: Machine) -> Iterable[str]:
    return {entry.component for entry in machine.spec.components}


def components_of_set(set_: MachineComponentSet) -> Iterable[str]:
    """Return the components of the set's spec and of its revisions, to which it may return."""
    return {set_.spec.component, *(revision.component for revision in set_.status.revisions)}
