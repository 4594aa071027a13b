"""Observe one Machine. I/O without decisions."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from kubenode.api.v1alpha1 import Machine, MachineComponentSet
from kubenode.api.v1alpha1.machinestatus import MachineConditionType
from kubenode.runtime.kube.objects import Node
from machine.bootstrap.agentready import Lifesign
from machine.ground import SharedCaches
from machine.machine.attachments import Attachments
from machine.machine.deletion import DeletionStage
from machine.machine.fights import NodeFights
from machine.machine.instances import InstanceAccess
from machine.machine.model import ActResult, ClassSeen, InstanceSeen, MachineObservation
from machine.machine.nodeready import gave_up
from machine.machine.step import plan_of
from machine.names import MACHINE


@dataclass(frozen=True, slots=True)
class MachineObserver:
    """Reader of everything that a decision about a Machine needs.

    frozen: returns why nothing may be deleted now, "" if it may.
    """

    ground: SharedCaches
    instances: InstanceAccess
    fights: NodeFights
    frozen: Callable[[], str]
    attachments: Attachments

    async def observe(self, machine: Machine, heard: ActResult) -> MachineObservation:
        """Return what is known of the Machine.

        heard: the result of the previous act of this run.
        """
        ground, name = self.ground, machine.metadata.name
        node = ground.nodes.get(machine.node_name) if machine.spec.node == "Expected" else None
        conflict = self._conflict(machine, node)
        seen = MachineObservation(
            now=ground.clock.now(),
            machine=machine,
            class_=self._class(machine),
            node=node,
            conflict=conflict,
            missing=self._missing(machine),
            instance=await self._instance(machine),
            held=ground.held(machine.node_name) if node is not None else "",
            frozen=self.frozen(),
            tokened=machine.status.bootstrap is not None
            and bool(machine.status.bootstrap.token_id),
            owned=any(
                ref.kind == "MachineSet" and ref.controller
                for ref in machine.metadata.owner_references
            ),
            unsure=ground.lifesigns.of(name) is Lifesign.UNKNOWN,
            volumes=0 if conflict else await self._volumes(machine),
            heard=heard,
        )
        return replace(seen, fighting=self._fighting(seen))

    async def _instance(self, machine: Machine) -> InstanceSeen:
        if machine.spec.origin == "Import" or machine.spec.mode == "Observe":
            return InstanceSeen()
        return await self.instances.look(machine)

    def _class(self, machine: Machine) -> ClassSeen | None:
        found = self.ground.classes.get(machine.spec.class_ref) if machine.spec.class_ref else None
        if found is None:
            return None
        spec = found.spec
        return ClassSeen(found.status.class_hash, spec.create_timeout, spec.node_startup_timeout)

    def _conflict(self, machine: Machine, node: Node | None) -> str:
        """Return why the Node of this name belongs to another machine, "" if it does not."""
        if node is None:
            return ""
        name, whose = machine.metadata.name, node.metadata.annotations.get(MACHINE, "")
        if whose and whose != name and whose in self.ground.machines.cache:
            return f"Node {machine.node_name} belongs to Machine {whose}: give one another nodeName"
        mine, its = machine.spec.provider_id, node.spec.provider_id
        if mine and its and mine != its:
            return f"Node {machine.node_name} is of instance {its}, this Machine of {mine}"
        return ""

    def _missing(self, machine: Machine) -> tuple[str, ...]:
        """Return the sets that have yet to assign their component. A frozen set assigns none."""
        sets = self.ground.component_sets.cache.values()
        return tuple(sorted(one.metadata.name for one in sets if self._lacks(machine, one)))

    def _lacks(self, machine: Machine, one: MachineComponentSet) -> bool:
        """Return whether the set selects the Machine and has not assigned its component."""
        if one.metadata.deletion_timestamp is not None or one.spec.frozen:
            return False
        if not one.spec.selector.matches(machine.metadata.labels):
            return False
        version = self.ground.components.get(one.spec.component)
        family = version.spec.component if version is not None else None
        return not any(
            given.set == one.metadata.name or given.name == family
            for given in machine.spec.components
        )

    def _fighting(self, seen: MachineObservation) -> tuple[str, ...]:
        name = seen.machine.metadata.name
        planned = None if seen.deleting else plan_of(seen)
        if planned is None or seen.node is None:
            self.fights.forget(name)
            return ()
        if gave_up(seen):
            self.fights.forget(name)
            return ()
        return self.fights.told(name, seen.node.metadata.resource_version, planned.overwritten)

    async def _volumes(self, machine: Machine) -> int | None:
        """Return the number of volumes attached to the node; None unless the deletion waits for
        them.
        """
        known = machine.status.condition(MachineConditionType.DELETABLE)
        if machine.metadata.deletion_timestamp is None or known is None:
            return None
        if known.reason != DeletionStage.DETACHING:
            return None
        return await self.attachments.count(machine.node_name)
