"""The life of Machines: one key in, one Result out.

A run goes round: observe, decide, then a change of the status or one act, until there is nothing
left to do but wait. The status is written before the act that it announces, and looked at once more
in between. Dying anywhere loses nothing: whatever must be known is in the Machine or at its Node.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from kubenode.api.v1alpha1 import (
    Machine,
    MachineClass,
    MachineComponentSet,
)
from kubenode.api.v1alpha1.machinestatus import MachinePhase
from kubenode.providers.instances import Code
from kubenode.runtime.audit import Line
from kubenode.runtime.controller.result import DONE, Result
from kubenode.runtime.kube.objects import Node
from machine.access import MachineAccess, regarding
from machine.certificates.controller import OF_NODE
from machine.disruption.port import Disruptions
from machine.ground import Ground
from machine.machine.act import Acts
from machine.machine.fights import Fights
from machine.machine.instances import InstanceAccess
from machine.machine.model import Act, Heard, Seen, Step
from machine.machine.observe import Observer
from machine.machine.step import step
from machine.provisioning import Provisioning

BY = "machine"
ROUNDS = 12
"""More changes than one run can have; the rest waits for the next."""
SHORTEST = timedelta(milliseconds=50)
AGAIN = Result(SHORTEST)
SHOWN_BY_A_WATCH = frozenset({Act.SYNC, Act.RELEASE, Act.DELETE_NODE, Act.REPLACE, Act.UNINSTALL})
"""What is decided next needs what these changed, which our caches do not show yet."""
WARN = frozenset({MachinePhase.DEGRADED, MachinePhase.UNREACHABLE, MachinePhase.FAILED})
TOLD = frozenset(
    {
        Act.CREATE,
        Act.OPERATE,
        Act.REPLACE,
        Act.UNINSTALL,
        Act.TERMINATE,
        Act.DELETE_NODE,
        Act.RELEASE,
    }
)
"""Acts that are written down in the audit log."""


@dataclass(frozen=True, slots=True)
class MachineController:
    ground: Ground
    access: MachineAccess
    observer: Observer
    acts: Acts
    instances: InstanceAccess
    fights: Fights

    async def reconcile(self, name: str) -> Result:
        known = self.ground.machines.get(name)
        if known is None or not self.ground.machines.readable(name):
            self.instances.forget(name)
            self.fights.forget(name)
            return DONE
        machine, heard = known, Heard()
        for _ in range(ROUNDS):
            seen = await self.observer.observe(machine, heard)
            after = step(seen)
            if after.status:
                machine = await self._write(seen, after.status)
                continue
            if after.act is Act.NONE:
                return _later(after)
            self.ground.fence.check()
            left, heard = await self.acts.do(after.act, seen)
            self._audit(after.act, seen, heard)
            if left is None or after.act in SHOWN_BY_A_WATCH:
                return DONE if left is None else _later(after)
            if heard.again is not None and heard.act is not Act.OPERATE:
                return Result(max(heard.again, SHORTEST))
            machine = left
        return AGAIN

    async def _write(self, seen: Seen, status: Mapping[str, Any]) -> Machine:
        self.ground.fence.check()
        before = seen.machine.status.phase
        machine = await self.access.write(seen.machine, status)
        phase = machine.status.phase
        if phase is not None and phase is not before:
            type_ = "Warning" if phase in WARN else "Normal"
            told = f"from {before} to {phase}" if before is not None else f"begins as {phase}"
            await self.ground.recorder.emit(regarding(machine), type_, str(phase), told)
        return machine

    def _audit(self, act: Act, seen: Seen, heard: Heard) -> None:
        if act not in TOLD or heard.act is not act:
            return
        who, now = f"Machine {seen.machine.metadata.name}", self.ground.clock.now()
        node = seen.machine.node_name if seen.expects_node else ""
        outcome = "Done" if heard.code is Code.OK else "Failed"
        why = f"{heard.code}: {heard.told}" if heard.told else ""
        self.ground.audit.write(Line(now, BY, who, str(act), outcome, why=why, node=node))

    # -- whom a change concerns -------------------------------------------------------------------

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


def _said(node: Node) -> tuple[object, ...]:
    """What a Machine takes notice of."""
    meta, spec, ready = node.metadata, node.spec, node.ready_condition
    status = ready.status if ready is not None else ""
    return (meta.uid, meta.labels, meta.annotations, spec.taints, spec.provider_id, status)


def _later(after: Step) -> Result:
    return DONE if after.again is None else Result(max(after.again, SHORTEST))


def wired(
    ground: Ground, disruptions: Disruptions, provisioning: Provisioning
) -> MachineController:
    instances = InstanceAccess(
        provisioning, ground.kube, ground.classes.get, ground.meltdown.frozen, ground.clock
    )
    fights = Fights(ground.clock.monotonic)
    return MachineController(
        ground,
        MachineAccess(ground.kube),
        Observer(ground, instances, fights, ground.meltdown.frozen),
        Acts(ground.kube, disruptions, instances, ground.clock),
        instances,
        fights,
    )
