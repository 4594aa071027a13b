"""Reconcile Nodes that carry the label of a NodeClass: give them a Machine, and take it away."""

import logging
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from kubenode.api.v1alpha1 import Machine, MachineClass, NodeClass
from kubenode.api.v1alpha1.permit import Holder, Operation
from kubenode.runtime.audit import AuditLine
from kubenode.runtime.controller.result import DONE, Result
from kubenode.runtime.disruption.request import ActRefused
from kubenode.runtime.kube.errors import AlreadyExists
from kubenode.runtime.kube.objects import Node
from kubenode.runtime.kube.paths import custom
from kubenode.runtime.kube.paths import node as node_path
from machine.certificates.controller import OF_NODE
from machine.certificates.records import node_of
from machine.disruption.port import DisruptionService
from machine.disruption.removal import prepare_removal, removal_request
from machine.ground import SharedCaches
from machine.machineset.act import SetActs
from machine.machineset.observe import room
from machine.machineset.ownership import OF_CLASS
from machine.names import LEAVING, NODE_CLASS
from machine.nodesets.conversion import make_machine
from machine.nodesets.step import FINALIZER, NodeAct, NodeClaim, step

log = logging.getLogger(__name__)

BY = "machine"
"""Component name in the audit log."""
BY_NODE_CLASS = "node class"
"""Index of Nodes by the NodeClass of their label."""
SOON = timedelta(seconds=1)
"""Time until a refused removal is tried again."""
REQUEUE_INTERVAL = timedelta(seconds=30)
"""Interval of reconciles of a Node that waits for something that wakes nobody."""


class NodeMachines:
    """Reconciler of Nodes with a NodeClass.

    disruptions: prepares the disruption for a removal, with the Machine as the holder.
    """

    def __init__(self, ground: SharedCaches, disruptions: DisruptionService) -> None:
        self._ground, self._disruptions = ground, disruptions
        self._acts = SetActs(ground.kube, ground.fence, ground.machines, ground.guard)
        self._reported: dict[str, str] = {}
        self.controller = ground.controller("nodemachines", self.reconcile)
        ground.nodes.add_index(BY_NODE_CLASS, _list_labels)
        self.controller.watch(ground.nodes, _list_changed)
        self.controller.watch(ground.machines, self._list_nodes)
        self.controller.watch(ground.node_classes, self._list_labelled)
        self.controller.watch(ground.classes, self._list_labelled)

    async def reconcile(self, name: str) -> Result:
        node = self._ground.nodes.get(name)
        if node is None:
            self._reported.pop(name, None)
            return DONE
        machine = next(iter(self._ground.machines.by(OF_NODE, name)), None)
        node_class = self._ground.node_classes.get(node.metadata.labels.get(NODE_CLASS, ""))
        decision = step(NodeClaim(node, node_class, machine))
        await self._report(node, decision.reason, decision.message)
        match decision.act:
            case NodeAct.ADD_FINALIZER:
                await self._guard(node, on=True)
            case NodeAct.REMOVE_FINALIZER:
                await self._guard(node, on=False)
            case NodeAct.CREATE_MACHINE:
                assert node_class is not None
                return await self._create(node, node_class)
            case NodeAct.REMOVE_MACHINE:
                assert machine is not None
                return await self._remove(node, machine)
            case NodeAct.NONE:
                pass
        return DONE

    # -- acting -------------------------------------------------------------------------------

    async def _guard(self, node: Node, *, on: bool) -> None:
        """Add or remove our finalizer; other finalizers stay."""
        meta = node.metadata
        others = [each for each in meta.finalizers if each != FINALIZER]
        versions = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        finalizers = [*others, FINALIZER] if on else others
        body = {"metadata": {**versions, "finalizers": finalizers}}
        self._ground.fence.check()
        await self._ground.kube.patch(node_path(meta.name), body)

    async def _create(self, node: Node, node_class: NodeClass) -> Result:
        """Create the Machine, within the limits of its class. After a restore of etcd none is
        created.
        """
        ref = node_class.metadata.name
        async with self._ground.creation_locks[ref]:
            if self._ground.restored() or not self._ground.machines.fresh():
                return Result(REQUEUE_INTERVAL)
            machines = self._ground.machines.by(OF_CLASS, ref)
            fits = room(ref, self._ground.classes.get(ref), machines, self._ground.clock.now())
            if not fits.remaining:
                await self._report(node, fits.reason, fits.blocked)
                return Result(REQUEUE_INTERVAL)
            return await self._make(node, node_class)

    async def _make(self, node: Node, node_class: NodeClass) -> Result:
        name, machines = node.metadata.name, self._ground.machines
        self._ground.fence.check()
        try:
            created = await self._ground.kube.create(
                custom(Machine.resource.plural), make_machine(name, node_class), machines.read
            )
        except AlreadyExists:
            await self._report(node, "NameTaken", f"Machine {name} exists and has another Node")
            return Result(REQUEUE_INTERVAL)
        await machines.wait_for(name, created.metadata.resource_version)
        self._audit(node, "Create", f"Node {name} of NodeClass {node_class.metadata.name}")
        return DONE

    async def _remove(self, node: Node, machine: Machine) -> Result:
        """Delete the Machine under a permit. Its deletion drains the Node and ends its instance."""
        begun = machine.metadata.annotations.get(LEAVING, "")
        operation = Operation(begun) if begun in set(Operation) else Operation.DELETE
        prepared = await prepare_removal(self._disruptions, machine, operation)
        if not prepared.permit:
            await self._report(node, prepared.reason, prepared.message)
            seconds = prepared.requeue_after or REQUEUE_INTERVAL.total_seconds()
            return Result(timedelta(seconds=seconds))
        why = f"Node {node.metadata.name} is deleted"
        try:
            await self._acts.delete(machine, removal_request(machine, prepared.permit, why))
        except ActRefused as refused:
            await self._report(node, "RemovalRefused", refused.message)
            return Result(SOON)
        self._audit(node, "Delete", why)
        return DONE

    # -- reporting ----------------------------------------------------------------------------

    async def _report(self, node: Node, reason: str, message: str) -> None:
        """Emit an Event about the Node when the reason changes. "" for nothing to report."""
        name = node.metadata.name
        if self._reported.get(name, "") == reason:
            return
        if not reason:
            self._reported.pop(name, None)
            return
        self._reported[name] = reason
        regarding = {"kind": "Node", "api_version": "v1", "name": name, "uid": node.metadata.uid}
        await self._ground.recorder.emit(regarding, "Warning", reason, message)

    def _audit(self, node: Node, act: str, why: str) -> None:
        name, now = node.metadata.name, self._ground.clock.now()
        self._ground.audit.write(
            AuditLine(now, BY, f"Node {name}", act, "Done", why=why, node=name)
        )

    # -- waking -------------------------------------------------------------------------------

    def wake(self, holder: Holder) -> None:
        """Enqueue the Node of the Machine that is next in line at Kube Defender."""
        machine = self._ground.machines.get(holder.name) if holder.kind == "Machine" else None
        for name in self._list_nodes("", machine, None):
            self.controller.queue.add(name)

    def _list_nodes(self, key: str, old: Machine | None, new: Machine | None) -> Iterable[str]:
        """Return the Nodes with a NodeClass that a changed Machine names."""
        names = {node_of(machine) for machine in (old, new) if machine is not None}
        nodes = (self._ground.nodes.get(name) for name in names)
        return [node.metadata.name for node in nodes if node is not None and _is_ours(node)]

    def _list_labelled(
        self,
        key: str,
        old: NodeClass | MachineClass | None,
        new: NodeClass | MachineClass | None,
    ) -> Iterable[str]:
        return [node.metadata.name for node in self._ground.nodes.by(BY_NODE_CLASS, key)]


def _is_ours(node: Node) -> bool:
    return NODE_CLASS in node.metadata.labels or FINALIZER in node.metadata.finalizers


def _list_labels(node: Node) -> Iterable[str]:
    label = node.metadata.labels.get(NODE_CLASS)
    return () if label is None else (label,)


def _list_changed(key: str, old: Node | None, new: Node | None) -> Iterable[str]:
    """Return the Node if a change concerns it, and not only its heartbeat."""
    if not any(_is_ours(node) for node in (old, new) if node is not None):
        return ()
    return (key,) if old is new or _facts(old) != _facts(new) else ()


def _facts(node: Node | None) -> Any:
    """Return what the decision reads of a Node."""
    if node is None:
        return None
    meta = node.metadata
    host = node.spec.provider_id, node.status.node_info.kubelet_version
    return meta.uid, meta.labels, meta.finalizers, meta.deletion_timestamp, host
