"""The life of Machines: one key in, one Result out.

A run goes round: observe, decide, then a change of the status or one act, until there is nothing
left to do but wait. The status is written before the act that it announces, and looked at once more
in between. Dying anywhere loses nothing: whatever must be known is in the Machine or at its Node.
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
from machine.provisioning import Provisioning

BY = "machine"
ROUNDS = 12
"""More changes than one run can have; the rest waits for the next."""
SHORTEST = timedelta(milliseconds=50)
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
"""What is decided next needs what these changed, which our caches do not show yet."""
WARN = frozenset({MachinePhase.DEGRADED, MachinePhase.UNREACHABLE, MachinePhase.FAILED})
ORDINARY = {MachinePhase.RUNNING, MachinePhase.UPDATING}
"""Between these a Machine goes with every rollout: the set tells of it."""
SETTLE = 2.0
"""Seconds in which what sets and agents write of components is gathered to one look: between an
assignment and its success there are six such writes within seconds, each a condition or two."""
AGENT_READY = MachineConditionType.AGENT_READY
BY_SETS = frozenset({"components", "permit"})
TOLD = frozenset(
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
"""Acts that are written down in the audit log."""


@dataclass(frozen=True, slots=True)
class MachineController:
    """later  looks at a Machine after so many seconds, at once for whatever changed until then"""

    ground: SharedCaches
    access: MachineAccess
    observer: MachineObserver
    acts: MachineActs
    instances: InstanceAccess
    fights: NodeFights
    later: Callable[[str, float], None] = lambda name, seconds: None
    _written: dict[str, str] = field(default_factory=dict)
    """Machine to the version that our last write of its status made."""

    async def reconcile(self, name: str) -> Result:
        known = self.ground.machines.get(name)
        if known is None or not self.ground.machines.readable(name):
            self.instances.forget(name)
            self.fights.forget(name)
            self._written.pop(name, None)
            return DONE
        machine, heard = known, ActResult()
        for _ in range(ROUNDS):
            seen = await self.observer.observe(machine, heard)
            after = step(seen)
            if after.status:
                machine = await self._write(seen, after.status)
                continue
            if after.act is MachineAct.NONE:
                return _later(after)
            self.ground.fence.check()
            left, heard = await self.acts.do(after.act, seen)
            self._audit(after.act, seen, heard)
            if left is None:
                return DONE
            if heard.again is not None and heard.act is not MachineAct.OPERATE:
                return Result(max(heard.again, SHORTEST))
            if after.act in SHOWN_BY_A_WATCH:
                return _later(after)
            machine = left
        return AGAIN

    async def _write(self, seen: MachineObservation, status: Mapping[str, Any]) -> Machine:
        self.ground.fence.check()
        before = seen.machine.status.phase
        machine = await self.access.write(seen.machine, status)
        self._written[machine.metadata.name] = machine.metadata.resource_version
        phase = machine.status.phase
        if phase is not None and phase is not before and {before, phase} != ORDINARY:
            type_ = "Warning" if phase in WARN else "Normal"
            told = f"from {before} to {phase}" if before is not None else f"begins as {phase}"
            await self.ground.recorder.emit(regarding(machine), type_, str(phase), told)
        return machine

    def _audit(self, act: MachineAct, seen: MachineObservation, heard: ActResult) -> None:
        if act not in TOLD or heard.act is not act:
            return
        who, now = f"Machine {seen.machine.metadata.name}", self.ground.clock.now()
        node = seen.machine.node_name if seen.expects_node else ""
        outcome = "Done" if heard.code is ErrorCode.OK else "Failed"
        why = f"{heard.code}: {heard.told}" if heard.told else ""
        self.ground.audit.write(AuditLine(now, BY, who, str(act), outcome, why=why, node=node))

    # -- whom a change concerns -------------------------------------------------------------------

    def of_machine(self, key: str, old: Machine | None, new: Machine | None) -> tuple[str, ...]:
        """Itself; a little later where only components go on, and not for what we wrote of it."""
        if old is None or new is None or old is new or _hurries(old, new):
            return (key,)
        if self._written.get(key) != new.metadata.resource_version:
            self.later(key, SETTLE)
        return ()

    def of_node(self, key: str, old: Node | None, new: Node | None) -> tuple[str, ...]:
        """A heartbeat concerns nobody; a resync, which shows the same object, does."""
        if old is not None and new is not None and old is not new and _said(old) == _said(new):
            return ()
        return tuple(m.metadata.name for m in self.ground.machines.by(OF_NODE, key))

    def of_class(
        self, key: str, old: MachineClass | None, new: MachineClass | None
    ) -> tuple[str, ...]:
        if old is not None and new is not None:
            same = old.status.class_hash == new.status.class_hash
            if same and old.metadata.generation == new.metadata.generation:
                return ()
        machines = self.ground.machines.cache.values()
        return tuple(m.metadata.name for m in machines if m.spec.class_ref == key)

    def of_set(
        self, key: str, old: MachineComponentSet | None, new: MachineComponentSet | None
    ) -> tuple[str, ...]:
        """Those that it selects, or did: a change of its status says nothing of them."""
        if old and new and old.metadata.generation == new.metadata.generation:
            return ()
        selectors = [one.spec.selector for one in (old, new) if one is not None]
        return tuple(
            machine.metadata.name
            for machine in self.ground.machines.cache.values()
            if any(selector.matches(machine.metadata.labels) for selector in selectors)
        )


def _hurries(old: Machine, new: Machine) -> bool:
    """Whether more changed than what sets assign and agents report."""
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


def _said(node: Node) -> tuple[object, ...]:
    """What a Machine takes notice of."""
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
