"""The provider behind the calls of Cluster Autoscaler: reads from caches, writes to MachineSets.

All state is in the MachineSets and Machines, so a restart loses nothing and several replicas may
answer. A call that changes a set reads it live, writes with its version, and returns when the cache
shows the change: the autoscaler reads the new size next.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from defender.client import DefenderUnreachable, Permits
from kubenode.api.v1alpha1 import Ask, Machine, MachineClass, MachineSet
from kubenode.api.v1alpha1.machinework import ChangeClass
from kubenode.api.v1alpha1.permit import Holder, Operation
from kubenode.runtime.audit import SILENT, Audit, AuditLine
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Conflict, NotFound
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.informers import MakeInformer
from kubenode.runtime.kube.objects import Node, structs
from machine.autoscaler import nodegroup
from machine.autoscaler.nodegroup import GroupInstance, GroupStatus, NodeGroupError, NodeHandle
from machine.autoscaler.template import NodeTemplate, build_template
from machine.disruption.port import DISRUPTION
from machine.machineset.act import owner_uid
from machine.machineset.observe import room
from machine.machineset.ownership import OF_CLASS, OF_OWNER, index

ATTEMPTS = 10
"""Attempts to write a set while others write to it too."""
BY = "autoscaler-provider"
"""Component name in the audit log."""
HOLDER_KIND = "ClusterAutoscaler"
"""Kind of the holder in requests to Kube Defender. They are dry runs: it never holds a permit."""
BY_INSTANCE, BY_NODE = "instance", "node"
"""Indexes of provisioned Machines: by the IDs of the instance, and by the name of the Node."""
SETS = MachineSet.resource.plural

Change = Callable[[MachineSet], Mapping[str, Any]]
"""Returns the change of the spec of a set, {} for none. Raises NodeGroupError."""


class AutoscalerProvider:
    """Answers of the provider. Every method raises NodeGroupError and KubeError.

    permits: client of Kube Defender.
    gpu_label: label of Nodes with GPUs, "" for none.
    """

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        permits: Permits,
        *,
        gpu_label: str = "",
        audit: Audit = SILENT,
        informer: MakeInformer = Informer,
    ) -> None:
        self._kube, self._clock, self._permits = kube, clock, permits
        self._gpu_label, self._audit = gpu_label, audit

        def custom(kind: Any) -> Informer[Any]:
            path = paths.custom(kind.resource.plural)
            return informer(kube, path, kind.from_server, clock=clock)

        self._sets: Informer[MachineSet] = custom(MachineSet)
        self._machines: Informer[Machine] = custom(Machine)
        self._classes: Informer[MachineClass] = custom(MachineClass)
        self._nodes: Informer[Node] = informer(kube, paths.nodes(), structs(Node), clock=clock)
        index(self._machines)
        self._machines.add_index(BY_INSTANCE, nodegroup.ids_of)
        self._machines.add_index(BY_NODE, lambda m: (m.node_name,) if m.expects_node else ())

    @property
    def informers(self) -> tuple[Informer[Any], ...]:
        return self._sets, self._machines, self._classes, self._nodes

    def check_fresh(self) -> None:
        """Raise NodeGroupError while a cache is not current."""
        for informer in self.informers:
            if not informer.fresh():
                raise NodeGroupError(
                    GroupStatus.UNAVAILABLE, f"the cache of {informer.name} is not current"
                )

    # -- reads --------------------------------------------------------------------------------

    def list_groups(self) -> list[MachineSet]:
        """Return the sets that an autoscaler may scale, by name."""
        self.check_fresh()
        groups = filter(nodegroup.is_group, self._sets.cache.values())
        return sorted(groups, key=lambda machine_set: machine_set.metadata.name)

    def find_group(self, handle: NodeHandle) -> MachineSet | None:
        """Return the group of the node, None if the autoscaler is to leave the node alone."""
        self.check_fresh()
        machine = self._find_machine(handle)
        if machine is None or not nodegroup.is_counted(machine):
            return None
        uid = owner_uid(machine)
        return next((group for group in self.list_groups() if group.metadata.uid == uid), None)

    def target_size(self, id_: str) -> int:
        """Return the desired number of machines."""
        return self._group(id_).spec.replicas

    def list_instances(self, id_: str) -> list[GroupInstance]:
        """Return the instances of the group. A Node without providerID cannot be named."""
        group = self._group(id_)
        named = ((m, nodegroup.instance_id(m, self._node(m))) for m in self._members(group))
        return [
            nodegroup.describe_instance(group, machine, name) for machine, name in named if name
        ]

    def build_template(self, id_: str) -> NodeTemplate:
        """Return the Node of a new machine. Without the resources of its class it is unknown."""
        group = self._group(id_)
        ref = group.spec.template.spec.class_ref
        if template := build_template(group, self._classes.get(ref)):
            return template
        raise NodeGroupError(
            GroupStatus.UNIMPLEMENTED,
            f"MachineClass {ref} has no spec.node.capacity: set it to scale {id_} from zero",
        )

    @property
    def gpu_label(self) -> str:
        return self._gpu_label

    def list_gpu_types(self) -> list[str]:
        """Return the values of the label of GPUs in the templates of all groups."""
        templates = (
            build_template(group, self._classes.get(group.spec.template.spec.class_ref))
            for group in self.list_groups()
        )
        return sorted(
            {t.labels[self._gpu_label] for t in templates if t and self._gpu_label in t.labels}
        )

    # -- writes -------------------------------------------------------------------------------

    async def increase_size(self, id_: str, delta: int) -> None:
        """Add `delta` machines, all of them or none."""
        self._group(id_)

        def change(group: MachineSet) -> Mapping[str, Any]:
            ref = group.spec.template.spec.class_ref
            class_, made = self._classes.get(ref), self._machines.by(OF_CLASS, ref)
            capacity = room(ref, class_, made, self._clock.now())
            return nodegroup.raise_size(group, delta, class_, capacity, len(made))

        await self._write(id_, change, "IncreaseSize", f"{delta} more machines")

    async def decrease_target_size(self, id_: str, delta: int) -> None:
        """Withdraw machines that do not exist yet. `delta` is negative."""
        self._group(id_)

        def change(group: MachineSet) -> Mapping[str, Any]:
            return nodegroup.lower_size(group, delta, self._members(group))

        await self._write(id_, change, "DecreaseTargetSize", f"{-delta} fewer machines")

    async def delete_nodes(self, id_: str, handles: Sequence[NodeHandle]) -> None:
        """Remove the machines of these nodes in order, up to the first that cannot be removed."""
        group = self._group(id_)
        machines = [self._member(group, handle) for handle in handles]
        for number, machine in enumerate(machines):
            try:
                await self._delete_machine(id_, machine)
            except NodeGroupError as error:
                message = f"{number} of {len(machines)} nodes are deleted; {error}"
                raise NodeGroupError(error.status, message) from error

    async def _delete_machine(self, id_: str, machine: Machine) -> None:
        meta, node = machine.metadata, self._node(machine)

        def change(group: MachineSet) -> Mapping[str, Any]:
            names = [m.metadata.name for m in self._machines.by(OF_OWNER, group.metadata.uid)]
            return nodegroup.choose_machine(group, machine, names)

        if change(self._group(id_)) and node is not None:
            await self._check_permission(machine, node.metadata.name)
        await self._write(id_, change, "DeleteNode", f"Machine {meta.name} is removed")

    async def _check_permission(self, machine: Machine, node: str) -> None:
        """Raise NodeGroupError unless Kube Defender would allow the removal now.

        The Machine operator asks for the permit itself before it acts.
        """
        meta = machine.metadata
        ask = Ask(
            operation=Operation.SCALE_IN,
            class_=DISRUPTION[ChangeClass.REBOOT],
            node=node,
            holder=Holder(kind=HOLDER_KIND, name=meta.name, uid=meta.uid or meta.name),
            dry_run=True,
        )
        try:
            verdict = await self._permits.ask(ask)
        except DefenderUnreachable as error:
            raise NodeGroupError(
                GroupStatus.UNAVAILABLE, f"Kube Defender cannot be reached: {error}"
            ) from error
        if not verdict.allowed:
            message = f"Kube Defender refuses node {node}: {verdict.reason}: {verdict.message}"
            self._write_audit("DeleteNode", "Refused", message, node)
            raise NodeGroupError(GroupStatus.FAILED_PRECONDITION, message)

    async def _write(self, id_: str, change: Change, action: str, why: str) -> None:
        """Write the change of the live set. Returns when the cache shows it."""
        path = paths.custom(SETS, id_)
        for _ in range(ATTEMPTS):
            try:
                live = await self._kube.get(path, self._sets.read)
                if not (spec := change(live)):
                    return
                versions = {
                    "uid": live.metadata.uid,
                    "resourceVersion": live.metadata.resource_version,
                }
                written = await self._kube.patch(
                    path, {"metadata": versions, "spec": spec}, decode=self._sets.read
                )
            except NotFound as error:
                raise NodeGroupError(GroupStatus.ABSENT, f"there is no MachineSet {id_}") from error
            except Conflict:
                continue
            self._write_audit(action, "Done", f"MachineSet {id_}: {why}")
            await self._sets.wait_for(id_, written.metadata.resource_version or "0")
            return
        raise NodeGroupError(
            GroupStatus.ABORTED, f"others write to MachineSet {id_} all the time: call again"
        )

    def _write_audit(self, action: str, outcome: str, why: str, node: str = "") -> None:
        now, who = self._clock.now(), HOLDER_KIND
        self._audit.write(AuditLine(now, BY, who, action, outcome, why=why, node=node))

    # -- caches -------------------------------------------------------------------------------

    def _group(self, id_: str) -> MachineSet:
        """Return the set from the cache. Raises NodeGroupError if it is not a group."""
        self.check_fresh()
        machine_set = self._sets.get(id_)
        if machine_set is None:
            raise NodeGroupError(GroupStatus.ABSENT, f"there is no MachineSet {id_}")
        nodegroup.limits_of(machine_set)
        return machine_set

    def _members(self, group: MachineSet) -> list[Machine]:
        return list(filter(nodegroup.is_counted, self._machines.by(OF_OWNER, group.metadata.uid)))

    def _member(self, group: MachineSet, handle: NodeHandle) -> Machine:
        machine = self._find_machine(handle)
        if machine is None or owner_uid(machine) != group.metadata.uid:
            raise NodeGroupError(
                GroupStatus.INVALID_ARGUMENT,
                f"node {handle.name} ({handle.provider_id or 'without providerID'}) does not belong"
                f" to MachineSet {group.metadata.name}",
            )
        return machine

    def _find_machine(self, handle: NodeHandle) -> Machine | None:
        machines = [
            *self._machines.by(BY_NODE, handle.name),
            *self._machines.by(BY_INSTANCE, handle.provider_id),
        ]
        same = (m for m in machines if nodegroup.is_same(m, self._node(m), handle))
        return next(same, None)

    def _node(self, machine: Machine) -> Node | None:
        return self._nodes.get(machine.node_name) if machine.expects_node else None
