"""Reconcile MachineClasses: validate and count them."""

from typing import Any

from kubenode.api.conditions import ConditionUpdate, set_condition
from kubenode.api.readiness import set_readiness
from kubenode.api.v1alpha1 import Machine, MachineClass
from kubenode.api.v1alpha1.machineclass import MACHINE_CLASS_READY
from kubenode.providers.instances import InstanceError, InstanceProviders
from kubenode.runtime.controller.result import DONE, Result
from kubenode.runtime.kube.paths import custom
from machine.ground import SharedCaches
from machine.machineclass.step import class_hash, ready
from machine.machineset.ownership import OF_CLASS
from machine.orphans.sightings import Sightings

SETTLE = 1.0
"""Seconds for which changes of Machines are collected for one count."""


class MachineClasses:
    """Reconciler of MachineClasses.

    instances: the providers.
    sightings: the credential errors of the providers.
    """

    def __init__(
        self, ground: SharedCaches, instances: InstanceProviders, sightings: Sightings
    ) -> None:
        self._ground, self._instances, self._sightings = ground, instances, sightings
        self.controller = ground.controller("machineclasses", self.reconcile)
        self.controller.watch(ground.classes)
        self.controller.watch(ground.machines, lambda key, old, new: ())
        ground.machines.add_handler(self._machine_changed)
        sightings.listeners.append(self._wake_all)

    async def reconcile(self, name: str) -> Result:
        class_ = self._ground.classes.get(name)
        if class_ is None or class_.metadata.deletion_timestamp is not None:
            return DONE
        new = self._status(class_)
        before = class_.status.to_dict()
        if change := {key: value for key, value in new.items() if before.get(key) != value}:
            meta = class_.metadata
            versions = {"uid": meta.uid, "resourceVersion": meta.resource_version}
            self._ground.fence.check()
            path = custom(MachineClass.resource.plural, name, "status")
            await self._ground.kube.patch(path, {"metadata": versions, "status": change})
        return DONE

    def _status(self, class_: MachineClass) -> dict[str, Any]:
        generation = class_.metadata.generation
        readiness, now = self._ready(class_), self._ground.clock.now()
        conditions = set_condition(
            class_.status.conditions,
            MACHINE_CLASS_READY,
            readiness,
            generation=generation,
            now=now,
        )
        conditions = set_readiness(
            MachineClass.__name__, conditions, generation=generation, now=now
        )
        return {
            "observedGeneration": generation,
            "classHash": class_hash(class_.spec),
            "machines": len(self._ground.machines.by(OF_CLASS, class_.metadata.name)),
            "conditions": [condition.to_dict() for condition in conditions],
        }

    def _ready(self, class_: MachineClass) -> ConditionUpdate:
        spec = class_.spec
        try:
            provider = self._instances.of(spec.provider, spec.credentials_ref)
        except InstanceError as error:
            return ready([], str(error))
        return ready(provider.validate(spec.config), self._sightings.refused(provider.name))

    def _machine_changed(self, key: str, old: Machine | None, new: Machine | None) -> None:
        """Enqueue the class of a Machine that was created or is gone. Other changes alter no
        count.
        """
        if old is None or new is None:
            for machine in (old, new):
                if machine is not None and machine.spec.class_ref:
                    self.controller.queue.add_after(machine.spec.class_ref, SETTLE)

    def _wake_all(self) -> None:
        for name in self._ground.classes.cache:
            self.controller.queue.add(name)
