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
from machine.machine.model import ActResult, ClassValues, InstanceObservation, MachineObservation
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

    async def observe(self, machine: Machine, act_result: ActResult) -> MachineObservation:
        """Return what is known of the Machine.

        act_result: the result of the previous act of this run.
        """
        ground, name = self.ground, machine.metadata.name
        node = ground.nodes.get(machine.node_name) if machine.expects_node else None
        conflict = self._conflict(machine, node)
        observation = MachineObservation(
            now=ground.clock.now(),
            machine=machine,
            class_=self._class(machine),
            node=node,
            conflict=conflict,
            missing=self._missing(machine),
            instance=await self._instance(machine),
            open_job=ground.find_open_job(machine.node_name) if node is not None else "",
            frozen=self.frozen(),
            tokened=machine.status.bootstrap is not None
            and bool(machine.status.bootstrap.token_id),
            owned=any(
                ref.kind == "MachineSet" and ref.controller
                for ref in machine.metadata.owner_references
            ),
            unsure=ground.lifesigns.of(name) is Lifesign.UNKNOWN,
            volumes=0 if conflict else await self._volumes(machine),
            act_result=act_result,
        )
        return replace(observation, fighting=self._fighting(observation))

    async def _instance(self, machine: Machine) -> InstanceObservation:
        if machine.spec.origin == "Import" or machine.spec.mode == "Observe":
            return InstanceObservation()
        return await self.instances.observe(machine)

    def _class(self, machine: Machine) -> ClassValues | None:
        machine_class = (
            self.ground.classes.get(machine.spec.class_ref) if machine.spec.class_ref else None
        )
        if machine_class is None:
            return None
        spec = machine_class.spec
        return ClassValues(
            machine_class.status.class_hash, spec.create_timeout, spec.node_startup_timeout
        )

    def _conflict(self, machine: Machine, node: Node | None) -> str:
        """Return why the Node of this name belongs to another machine, "" if it does not."""
        if node is None:
            return ""
        name, owner = machine.metadata.name, node.metadata.annotations.get(MACHINE, "")
        if owner and owner != name and owner in self.ground.machines.cache:
            return f"Node {machine.node_name} belongs to Machine {owner}: give one another nodeName"
        mine, its = machine.spec.provider_id, node.spec.provider_id
        if mine and its and mine != its:
            return f"Node {machine.node_name} is of instance {its}, this Machine of {mine}"
        return ""

    def _missing(self, machine: Machine) -> tuple[str, ...]:
        """Return the sets that have yet to assign their component. A frozen set assigns none."""
        sets = self.ground.component_sets.cache.values()
        return tuple(
            sorted(
                component_set.metadata.name
                for component_set in sets
                if self._lacks(machine, component_set)
            )
        )

    def _lacks(self, machine: Machine, component_set: MachineComponentSet) -> bool:
        """Return whether the set selects the Machine and has not assigned its component."""
        if component_set.metadata.deletion_timestamp is not None or component_set.spec.frozen:
            return False
        if not component_set.spec.selector.matches(machine.metadata.labels):
            return False
        version = self.ground.components.get(component_set.spec.component)
        family = version.spec.component if version is not None else None
        return not any(
            given.set == component_set.metadata.name or given.name == family
            for given in machine.spec.components
        )

    def _fighting(self, observation: MachineObservation) -> tuple[str, ...]:
        name = observation.machine.metadata.name
        planned = None if observation.deleting else plan_of(observation)
        if planned is None or observation.node is None:
            self.fights.forget(name)
            return ()
        if gave_up(observation):
            self.fights.forget(name)
            return ()
        return self.fights.record_overwrites(
            name, observation.node.metadata.resource_version, planned.overwritten
        )

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
