"""Build the controllers of component sets and decide which changes wake them.

A change of a machine enqueues the sets that it concerns after a delay, so that one reconcile
handles all changes within it. A set of 10,000 machines is not reconciled 10,000 times.
"""

from collections.abc import Iterable

from kubenode.api.v1alpha1 import Machine, MachineComponent, MachineComponentSet
from kubenode.api.v1alpha1.machinestatus import MachineConditionType
from kubenode.api.v1alpha1.permit import Holder
from kubenode.runtime.controller.controller import Controller
from kubenode.runtime.controller.result import Result
from kubenode.runtime.disruption.wakes import wake_by_name
from kubenode.runtime.kube.objects import Node
from machine.certificates.controller import OF_NODE
from machine.componentset.access import ReferencedTexts, ServerVersion, SetAccess
from machine.componentset.board import Assignments
from machine.componentset.carrier import KIND, Carrier
from machine.componentset.controller import SetController, Steady
from machine.componentset.leave import patience_of
from machine.componentset.pace import ObservationPace
from machine.componentset.targets import Aimer
from machine.disruption.disruptions import NodeDisruptions
from machine.disruption.nodes import cordoned
from machine.ground import RepairJob, SharedCaches
from machine.inspection.port import Inspector
from machine.machine.controller import BY_SETS


class NodeHolders:
    """Lists the component sets that hold a node, by a permit or by a mark on its cordon."""

    def __init__(self, ground: SharedCaches, disruptions: NodeDisruptions) -> None:
        self._ground, self._disruptions = ground, disruptions

    def sets(self, node: str) -> list[Holder]:
        """Return the holders of the node, each once. A set found by its cordon mark may be
        deleted.
        """
        holders = {}
        for name, set_ in self._ground.component_sets.cache.items():
            holder = Holder(kind=KIND, name=name, uid=set_.metadata.uid)
            if self._disruptions.leaves.find_permit(node, holder):
                holders[holder.uid] = holder
        there = self._ground.nodes.get(node)
        for marked in cordoned(there).holders if there is not None else ():
            if marked.kind == KIND:
                holders[marked.uid] = marked
        return list(holders.values())


class ComponentSets:
    """The two controllers of component sets.

    sets: reconciles each MachineComponentSet.
    carriers: writes assignments and permits to each Machine.
    """

    def __init__(
        self, ground: SharedCaches, disruptions: NodeDisruptions, inspector: Inspector
    ) -> None:
        self._ground, self._signs = ground, dict[str, object]()
        self._pace = ObservationPace()
        self.board = Assignments(wake=self._carry)
        access = SetAccess(ground.kube, ground.fence, ground.machines.read)
        aimer = Aimer(
            ground.components,
            ReferencedTexts(ground.kube, ground.clock),
            ServerVersion(ground.kube, ground.clock),
        )
        self.controller = SetController(
            ground, access, aimer, inspector, self.board, Steady(ground.clock)
        )
        self._carrier = Carrier(
            ground.machines,
            ground.component_sets,
            access,
            disruptions,
            NodeHolders(ground, disruptions),
            self.board,
            ground.clock,
            ground.find_open_job,
            lambda m: patience_of(m, ground.component_sets.cache, ground.components.cache),
        )
        self.sets = ground.controller("component sets", self.controller.reconcile)
        self.carriers = ground.controller("component carriers", self._carried)
        self.sets.watch(ground.component_sets, self._set_changed)
        self.sets.watch(ground.components, self._component_changed)
        self.sets.watch(ground.machines, self._machine_changed)
        self.sets.watch(ground.nodes, self._node_changed)
        self.sets.watch(ground.jobs, self._job_changed)
        self.sets.watch(ground.leases, lambda key, old, new: ())
        self.carriers.watch(ground.machines, carried)
        self.carriers.watch(disruptions.permits, lambda key, old, new: ())
        ground.on_lifesign(self.carriers)
        disruptions.wakes.on_wake.append(wake_by_name(KIND, self._next_in_line))

    @property
    def parts(self) -> list[Controller]:
        return [self.sets, self.carriers]

    async def _carried(self, name: str) -> Result:
        """Run the carrier, and enqueue the sets of the machine if its agent's liveness has
        changed.
        """
        sign = self._ground.lifesigns.of(name)
        if self._signs.get(name) is not sign:
            machine = self._ground.machines.get(name)
            self._signs[name] = sign
            if machine is None:
                self._signs.pop(name)
            else:
                self._nudge(self._sets_of(machine))
        return await self._carrier.reconcile(name)

    def _carry(self, machine: str) -> None:
        self.carriers.queue.add(machine)

    def _next_in_line(self, name: str) -> None:
        """Enqueue the waiting machines of a set whose request for a permit may now succeed."""
        for machine in self.board.machines(name):
            if machine in self.board.waits:
                self.carriers.queue.add(machine)

    # -- which sets a change concerns ---------------------------------------------------------

    def _set_changed(
        self, key: str, old: MachineComponentSet | None, new: MachineComponentSet | None
    ) -> tuple[str, ...]:
        """Enqueue the set. If its spec changed, also all others, which may gain or lose machines to
        it.
        """
        if old is None or new is None or old.spec != new.spec:
            self._nudge(name for name in self._ground.component_sets.cache if name != key)
        return (key,)

    def _component_changed(
        self, key: str, old: MachineComponent | None, new: MachineComponent | None
    ) -> tuple[str, ...]:
        """Return the sets that use the component, unless it is still the same object."""
        if old is not None and new is not None and old.metadata.uid == new.metadata.uid:
            return ()
        return tuple(
            name
            for name, set_ in self._ground.component_sets.cache.items()
            if key in {set_.spec.component, *(r.component for r in set_.status.revisions)}
        )

    def _machine_changed(self, key: str, old: Machine | None, new: Machine | None) -> tuple[()]:
        self._nudge(self._concerned(old, new))
        return ()

    def _node_changed(self, key: str, old: Node | None, new: Node | None) -> tuple[()]:
        if old is None or new is None or _of_use(old) != _of_use(new):
            self._node(key)
        return ()

    def _job_changed(self, key: str, old: RepairJob | None, new: RepairJob | None) -> tuple[()]:
        job = new or old
        if job is not None:
            self._node(job.spec.node_name)
        return ()

    def _node(self, node: str) -> None:
        for machine in self._ground.machines.by(OF_NODE, node):
            self._nudge(self._sets_of(machine))
            self._carry(machine.metadata.name)

    def _concerned(self, old: Machine | None, new: Machine | None) -> set[str]:
        """Return the sets that a change of the machine concerns.

        A change of one component concerns only the set that assigns it.
        """
        if old is None or new is None or _whole(old) != _whole(new):
            return {name for each in (old, new) if each is not None for name in self._sets_of(each)}
        before, after = _parts(old), _parts(new)
        families = {n for n in before.keys() | after.keys() if before.get(n) != after.get(n)}
        owners = [
            {c.name: c.set for c in m.spec.components if c.name in families} for m in (old, new)
        ]
        if owners[0] != owners[1]:  # another set may take over the component, or lose it
            return self._sets_of(old) | self._sets_of(new)
        return set(owners[1].values()) - {""}

    def _sets_of(self, machine: Machine) -> set[str]:
        """Return the sets that assign something to the machine, and those whose selector matches
        it.
        """
        set_names = {entry.set for entry in machine.spec.components if entry.set}
        labels = machine.metadata.labels
        for name, set_ in self._ground.component_sets.cache.items():
            if name not in set_names and set_.spec.selector.matches(labels):
                set_names.add(name)
        return set_names

    def _nudge(self, sets: Iterable[str]) -> None:
        """Enqueue the sets after the delay that `ObservationPace` gives them."""
        machines, now = len(self._ground.machines.cache), self._ground.clock.monotonic()
        for name in sets:
            self.sets.queue.add_after(name, self._pace.delay(name, machines, now))


def carried(key: str, old: Machine | None, new: Machine | None) -> tuple[str, ...]:
    """Return the key if the carrier must reconcile the changed Machine, else nothing."""
    if old is None or new is None or old is new:
        return (key,)
    changed = (
        old.spec != new.spec
        or old.status.components != new.status.components
        or old.status.node_ref != new.status.node_ref
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
    )
    return (key,) if changed else ()


OBSERVED_CONDITIONS = (MachineConditionType.AGENT_READY, MachineConditionType.NODE_READY)
"""Conditions from which a set judges a machine. The other conditions derive from its components."""


def _whole(machine: Machine) -> tuple[object, ...]:
    """Return the properties of a machine that concern all of its sets."""
    meta, spec, status = machine.metadata, machine.spec, machine.status
    return (
        meta.labels,
        meta.annotations,
        meta.deletion_timestamp,
        [getattr(spec, each) for each in type(spec).model_fields if each not in BY_SETS],
        status.host is None,
        status.node_ref,
        status.initialized_at,
        [status.condition(each) for each in OBSERVED_CONDITIONS],
    )


def _parts(machine: Machine) -> dict[str, tuple[object, ...]]:
    """Return what is assigned, reported and permitted, by component."""
    permit = machine.spec.permit
    assigned = {c.name: c for c in machine.spec.components}
    reported = {c.name: c for c in machine.status.components}
    allowed = permit.components if permit is not None else ()
    return {
        name: (assigned.get(name), reported.get(name), permit if name in allowed else None)
        for name in assigned.keys() | reported.keys()
    }


def _of_use(node: Node) -> tuple[object, ...]:
    """Return the properties of a Node whose change concerns its sets."""
    conditions = {c.type: c.status for c in node.status.conditions}
    return conditions, node.spec.unschedulable, cordoned(node).marks
