"""Reconcile Machines.

A run repeats: observe, decide, then write the status or do one act, until nothing is left but to
wait. The status is written before the act that it announces, and the Machine is observed again in
between. A crash loses nothing, because all state is in the Machine or at its Node.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from kubenode.api.v1alpha1 import (
    Machine,
    MachineClass,
    MachineComponentSet,
)
from kubenode.api.v1alpha1.machinestatus import MachineConditionType, MachinePhase
from kubenode.providers.instances import ErrorCode
from kubenode.runtime.audit import AuditLine
from kubenode.runtime.controller.result import DONE, Result
from kubenode.runtime.kube.objects import Node
from machine.access import MachineAccess, regarding
from machine.certificates.controller import OF_NODE
from machine.disruption.port import DisruptionService
from machine.ground import SharedCaches
from machine.machine.act import MachineActs
from machine.machine.attachments import Attachments
from machine.machine.fights import NodeFights
from machine.machine.instances import InstanceAccess
from machine.machine.model import ActResult, MachineAct, MachineObservation, MachineStep
from machine.machine.observe import MachineObserver
from machine.machine.step import step
from machine.site_settings import Provisioning

BY = "machine"
"""Component name in the audit log."""
ROUNDS = 12
"""Greatest number of changes in one run. The next run continues."""
SHORTEST = timedelta(milliseconds=50)
"""Least delay of the next reconcile."""
AGAIN = Result(SHORTEST)
SHOWN_BY_A_WATCH = frozenset(
    {
        MachineAct.SYNC,
        MachineAct.RELEASE,
        MachineAct.DELETE_NODE,
        MachineAct.REPLACE,
        MachineAct.UNINSTALL,
    }
)
"""Acts after which the run ends: the next decision needs their effect, which the caches do not show
yet.
"""
WARN = frozenset({MachinePhase.DEGRADED, MachinePhase.UNREACHABLE, MachinePhase.FAILED})
"""Phases whose Event is a warning."""
ORDINARY = {MachinePhase.RUNNING, MachinePhase.UPDATING}
"""Phases between which a Machine moves with each rollout. The set reports that, so no Event is
emitted.
"""
SETTLE = 2.0
"""Seconds for which changes of components by sets and agents are collected.

Between an assignment and its success there are about six writes within seconds.
"""
AGENT_READY = MachineConditionType.AGENT_READY
BY_SETS = frozenset({"components", "permit"})
"""Fields of a Machine's spec that component sets write."""
AUDITED_ACTS = frozenset(
    {
        MachineAct.CREATE,
        MachineAct.OPERATE,
        MachineAct.REPLACE,
        MachineAct.UNINSTALL,
        MachineAct.TERMINATE,
        MachineAct.DELETE_NODE,
        MachineAct.RELEASE,
    }
)
"""Acts that are written to the audit log."""


@dataclass(frozen=True, slots=True)
class MachineController:
    """Reconciler of Machines.

    later: enqueues a Machine after a number of seconds. Changes until then share that reconcile.
    """

    ground: SharedCaches
    access: MachineAccess
    observer: MachineObserver
    acts: MachineActs
    instances: InstanceAccess
    fights: NodeFights
    later: Callable[[str, float], None] = lambda name, seconds: None
    _written: dict[str, str] = field(default_factory=dict)
    """By Machine, the resourceVersion of our last write of its status."""

    async def reconcile(self, name: str) -> Result:
        known = self.ground.machines.get(name)
        if known is None or not self.ground.machines.readable(name):
            self.instances.forget(name)
            self.fights.forget(name)
            self._written.pop(name, None)
            return DONE
        machine, result = known, ActResult()
        for _ in range(ROUNDS):
            observation = await self.observer.observe(machine, result)
            after = step(observation)
            if after.status:
                machine = await self._write(observation, after.status)
                continue
            if after.act is MachineAct.NONE:
                return _later(after)
            self.ground.fence.check()
            updated, result = await self.acts.do(after.act, observation)
            self._audit(after.act, observation, result)
            if updated is None:
                return DONE
            if result.again is not None and result.act is not MachineAct.OPERATE:
                return Result(max(result.again, SHORTEST))
            if after.act in SHOWN_BY_A_WATCH:
                return _later(after)
            machine = updated
        return AGAIN

    async def _write(self, observation: MachineObservation, status: Mapping[str, Any]) -> Machine:
        self.ground.fence.check()
        before = observation.machine.status.phase
        machine = await self.access.write(observation.machine, status)
        self._written[machine.metadata.name] = machine.metadata.resource_version
        phase = machine.status.phase
        if phase is not None and phase is not before and {before, phase} != ORDINARY:
            type_ = "Warning" if phase in WARN else "Normal"
            message = f"from {before} to {phase}" if before is not None else f"begins as {phase}"
            await self.ground.recorder.emit(regarding(machine), type_, str(phase), message)
        return machine

    def _audit(self, act: MachineAct, observation: MachineObservation, result: ActResult) -> None:
        if act not in AUDITED_ACTS or result.act is not act:
            return
        who, now = f"Machine {observation.machine.metadata.name}", self.ground.clock.now()
        node = observation.machine.node_name if observation.expects_node else ""
        outcome = "Done" if result.code is ErrorCode.OK else "Failed"
        why = f"{result.code}: {result.message}" if result.message else ""
        self.ground.audit.write(AuditLine(now, BY, who, str(act), outcome, why=why, node=node))

    # -- whom a change concerns -------------------------------------------------------------------

    def of_machine(self, key: str, old: Machine | None, new: Machine | None) -> tuple[str, ...]:
        """Return the Machine to reconcile.

        A change of components only is reconciled after SETTLE seconds, our own status write not at
        all.
        """
        if old is None or new is None or old is new or _hurries(old, new):
            return (key,)
        if self._written.get(key) != new.metadata.resource_version:
            self.later(key, SETTLE)
        return ()

    def of_node(self, key: str, old: Node | None, new: Node | None) -> tuple[str, ...]:
        """Return the Machines of the Node, except after a mere heartbeat. A resync passes the same
        object.
        """
        if (
            old is not None
            and new is not None
            and old is not new
            and _read_inputs(old) == _read_inputs(new)
        ):
            return ()
        return tuple(m.metadata.name for m in self.ground.machines.by(OF_NODE, key))

    def of_class(
        self, key: str, old: MachineClass | None, new: MachineClass | None
    ) -> tuple[str, ...]:
        """Return the Machines of the class, if its spec or hash has changed."""
        if old is not None and new is not None:
            same = old.status.class_hash == new.status.class_hash
            if same and old.metadata.generation == new.metadata.generation:
                return ()
        machines = self.ground.machines.cache.values()
        return tuple(m.metadata.name for m in machines if m.spec.class_ref == key)

    def of_set(
        self, key: str, old: MachineComponentSet | None, new: MachineComponentSet | None
    ) -> tuple[str, ...]:
        """Return the Machines that the set selects or selected, unless only its status has
        changed.
        """
        if old and new and old.metadata.generation == new.metadata.generation:
            return ()
        selectors = [
            component_set.spec.selector for component_set in (old, new) if component_set is not None
        ]
        return tuple(
            machine.metadata.name
            for machine in self.ground.machines.cache.values()
            if any(selector.matches(machine.metadata.labels) for selector in selectors)
        )


def _hurries(old: Machine, new: Machine) -> bool:
    """Return whether more has changed than what sets assign and agents report."""
    if new.metadata.deletion_timestamp is not None or _marks(old) != _marks(new):
        return True
    before, after = old.status, new.status
    if (before.host is None, before.bootstrap) != (after.host is None, after.bootstrap):
        return True
    if before.condition(AGENT_READY) != after.condition(AGENT_READY):
        return True
    fields = type(new.spec).model_fields.keys() - BY_SETS
    return any(getattr(old.spec, each) != getattr(new.spec, each) for each in fields)


def _marks(machine: Machine) -> tuple[object, ...]:
    meta = machine.metadata
    return (meta.uid, meta.labels, meta.annotations, meta.finalizers, meta.owner_references)


def _read_inputs(node: Node) -> tuple[object, ...]:
    """Return the properties of a Node whose change its Machine must observe."""
    meta, spec, ready = node.metadata, node.spec, node.ready_condition
    status = ready.status if ready is not None else ""
    return (meta.uid, meta.labels, meta.annotations, spec.taints, spec.provider_id, status)


def _later(after: MachineStep) -> Result:
    return DONE if after.again is None else Result(max(after.again, SHORTEST))


def wired(
    ground: SharedCaches,
    disruptions: DisruptionService,
    provisioning: Provisioning,
    later: Callable[[str, float], None],
) -> MachineController:
    """Build the controller.

    later: enqueues a Machine after a number of seconds.
    """
    instances = InstanceAccess(
        provisioning,
        ground.kube,
        ground.classes.get,
        ground.meltdown.frozen,
        ground.clock,
        ground.guard,
    )
    fights = NodeFights(ground.clock.monotonic)
    return MachineController(
        ground,
        MachineAccess(ground.kube, ground.machines.read),
        MachineObserver(
            ground,
            instances,
            fights,
            ground.meltdown.frozen,
            Attachments(ground.kube),
        ),
        MachineActs(
            ground.kube,
            disruptions,
            instances,
            ground.clock,
            ground.guard,
            ground.machines.read,
        ),
        instances,
        fights,
        later,
    )
