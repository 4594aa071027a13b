"""Decide the status of one Machine and the next act. Pure.

The status is written before the act, so that the intent is stored first: the client token before
the instance is created, the operation before the provider is called.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1.machinestatus import (
    LastOperation,
    MachineConditionType,
    MachinePhase,
    MachineProvisioning,
    NodeReference,
)
from kubenode.providers.instances import client_token
from machine.bootstrap.agentready import ConditionUpdate
from machine.machine.componentsready import components_of, components_ready, up_to_date
from machine.machine.conditions import (
    available,
    healthy,
    joins,
    merged,
    settled,
    startup_timeout,
    whole,
)
from machine.machine.deletion import deletion
from machine.machine.instanceready import ABSENT, FINAL, create_timeout, instance_ready
from machine.machine.model import (
    RESYNC,
    SOON,
    InstanceRequestState,
    MachineAct,
    MachineObservation,
    MachineStep,
    Starting,
)
from machine.machine.nodeready import FALSE, TRUE, gave_up, node_ready, node_synced
from machine.machine.nodesync import NodePatch, plan
from machine.machine.operation import operation
from machine.machine.phases import ComponentProgress, MachineFacts, NodeState, next_phase
from machine.machine.success import said
from machine.names import PRESERVED

Type = MachineConditionType
Found = Mapping[MachineConditionType, ConditionUpdate | None]


def step(seen: MachineObservation) -> MachineStep:
    """Return the status change, the act, and when to reconcile again if nothing changes."""
    if seen.deleting:
        return _deleting(seen)
    planned, components = plan_of(seen), components_of(seen)
    instance, node = instance_ready(seen), node_ready(seen)
    health = healthy(seen, instance, node, components)
    found: Found = {
        Type.INSTANCE_READY: instance,
        Type.NODE_READY: node,
        Type.NODE_SYNCED: node_synced(seen, planned),
        Type.COMPONENTS_READY: components_ready(seen),
        Type.UP_TO_DATE: up_to_date(seen),
        Type.HEALTHY: health,
        Type.AVAILABLE: available(seen, health),
        Type.DELETABLE: _preserved(seen),
    }
    last, operate = operation(seen)
    begun = _initialized_at(seen, node, health)
    facts = facts_of(seen, found, components, begun)
    status = _changes(
        seen,
        found,
        phase=next_phase(seen.machine.status.phase, facts),
        node_ref=_node_ref(seen, health),
        initialized_at=begun,
        provisioning=_provisioning(seen),
        last_operation=last,
    )
    act = MachineAct.NONE
    if seen.manages and not facts.failed:
        here = seen.provision or seen.joined or joins(seen, node)
        act = _act(seen, planned, operate) if seen.finalizer else _first_act(here)
    return MachineStep(status, act, None if facts.failed else _again(seen, found))


def _deleting(seen: MachineObservation) -> MachineStep:
    if not seen.finalizer:
        found: Found = {Type.AVAILABLE: available(seen, None)}
        return MachineStep(_changes(seen, found, phase=MachinePhase.DELETING))
    held = deletion(seen)
    found = {Type.AVAILABLE: available(seen, None), Type.DELETABLE: held.said}
    return MachineStep(_changes(seen, found, phase=MachinePhase.DELETING), held.act, held.again)


def _preserved(seen: MachineObservation) -> ConditionUpdate | None:
    """Return condition Deletable for a Machine that its set preserves, or no longer preserves."""
    if until := seen.machine.metadata.annotations.get(PRESERVED, ""):
        return ConditionUpdate(FALSE, "Preserved", f"kept for people until {until}")
    was = seen.reason(Type.DELETABLE) == "Preserved"
    return ConditionUpdate(TRUE, "NotPreserved", "its set may give it up") if was else None


def plan_of(seen: MachineObservation) -> NodePatch | None:
    """Return the planned changes of the Node.

    None if there is no Node yet, the Node is not this Machine's, or the Machine does not manage
    one.
    """
    machine = seen.machine
    if not seen.manages or not seen.expects_node or seen.conflict or seen.node is None:
        return None
    if machine.status.node_ref is None or machine.status.node_ref.uid != seen.node.metadata.uid:
        return None
    return plan(
        seen.node,
        machine.metadata.name,
        machine.spec.node_template,
        initialized=machine.status.initialized_at is not None,
        provision=seen.provision,
    )


def facts_of(
    seen: MachineObservation,
    found: Found,
    components: ComponentProgress,
    initialized_at: datetime | None,
) -> MachineFacts:
    """Return the facts that determine the phase, with the conditions as they will be written."""
    instance, health = found.get(Type.INSTANCE_READY), found.get(Type.HEALTHY)
    reasons = {
        seen.reason(Type.INSTANCE_READY) if instance is None else instance.reason,
        seen.reason(Type.HEALTHY) if health is None else health.reason,
    }
    told = seen.reason(Type.HEALTHY) if health is None else health.reason
    return MachineFacts(
        provision=seen.provision,
        deleting=seen.deleting,
        failed=bool(reasons & (FINAL | {Starting.TIMEOUT})),
        token=bool(seen.token),
        instance=bool(seen.machine.spec.provider_id),
        joined=told not in ("", Starting.WAITING, Starting.TIMEOUT),
        initialized=initialized_at is not None,
        lease=said(seen.machine, Type.AGENT_READY),
        node=_node_state(seen, found.get(Type.NODE_READY)),
        components=components,
        settled=settled(seen, health) or _never_unwell(seen, health, initialized_at),
    )


def _node_state(seen: MachineObservation, node: ConditionUpdate | None) -> NodeState:
    if not seen.expects_node:
        return NodeState.NONE
    return NodeState.READY if node is not None and node.status == TRUE else NodeState.NOT_READY


def _never_unwell(
    seen: MachineObservation, health: ConditionUpdate | None, initialized_at: datetime | None
) -> bool:
    """Return whether the Machine has been well since it was initialized, so it need not settle
    again.
    """
    known = seen.known(Type.HEALTHY)
    if initialized_at is None or (health is not None and health.status != TRUE):
        return False
    if known is None or known.status != TRUE:
        return seen.machine.status.initialized_at is None
    return known.last_transition_time <= initialized_at


def _initialized_at(
    seen: MachineObservation, node: ConditionUpdate | None, health: ConditionUpdate | None
) -> datetime | None:
    """Return when the Machine was first complete. Once set, the time stays."""
    known = seen.machine.status.initialized_at
    if known is not None or health is None or health.status != TRUE:
        return known
    return seen.now if whole(seen, node) else None


def _node_ref(seen: MachineObservation, health: ConditionUpdate | None) -> NodeReference | None:
    """Return the reference to the Node, which is set when it is Ready for the first time.

    A Node with a new uid replaces the reference; a missing Node keeps it.
    """
    known, node = seen.machine.status.node_ref, seen.node
    if node is None or seen.conflict or not seen.expects_node:
        return known
    if known is not None and known.uid == node.metadata.uid:
        return known
    here = seen.joined or (health is not None and health.reason != Starting.WAITING)
    if not here or not node.is_ready:
        return known
    return NodeReference(name=node.metadata.name, uid=node.metadata.uid)


def _provisioning(seen: MachineObservation) -> MachineProvisioning | None:
    """Return the client token, which is stored before the first request with it and never
    changes.
    """
    known = seen.machine.status.provisioning
    if seen.token or not (seen.provision and seen.manages and seen.finalizer):
        return known
    if seen.class_ is None or not seen.class_.hash:
        return known
    token = client_token(seen.machine.metadata.uid, 1)
    return MachineProvisioning(client_token=token, class_hash=seen.class_.hash, attempts=1)


def _first_act(here: bool) -> MachineAct:
    """Return the act that adds the finalizer, by which whatever is made later can be cleaned up.

    here: whether the host belongs to the Machine by now.
    """
    return MachineAct.ADD_FINALIZER if here else MachineAct.NONE


def _act(seen: MachineObservation, planned: NodePatch | None, operate: MachineAct) -> MachineAct:
    spec = seen.machine.spec
    if operate is not MachineAct.NONE:
        return operate
    if seen.provision and not spec.provider_id:
        if seen.instance.asked is InstanceRequestState.FOUND:
            return MachineAct.ADOPT
        ready = seen.token and seen.tokened and seen.instance.asked is InstanceRequestState.ABSENT
        return MachineAct.CREATE if ready else MachineAct.NONE
    found = seen.instance.instance
    if found is not None and found.addresses and not spec.addresses:
        return MachineAct.ADOPT
    if planned is not None and planned.body and not seen.fighting and not gave_up(seen):
        return MachineAct.SYNC
    return MachineAct.NONE


# -- when to look again ---------------------------------------------------------------------------


def _again(seen: MachineObservation, found: Found) -> timedelta | None:
    waits = [seen.instance.again, seen.heard.again, *_limits(seen, found)]
    due = [max(wait, timedelta(0)) for wait in waits if wait is not None]
    return min(due, default=None)


def _limits(seen: MachineObservation, found: Found) -> Iterable[timedelta | None]:
    """Yield the times after which a decision can change: startup, minReady, create timeout, a
    resync.
    """
    health = found.get(Type.HEALTHY)
    known = seen.known(Type.HEALTHY)
    if health is not None and health.reason == Starting.WAITING:
        began = seen.now if known is None else known.last_transition_time
        left = began + startup_timeout(seen) - seen.now
        yield SOON if left <= timedelta(0) else left
    if health is not None and health.status == TRUE and not settled(seen, health):
        began = known.last_transition_time if known and known.status == TRUE else seen.now
        yield began + seen.machine.spec.min_ready - seen.now
    instance = found.get(Type.INSTANCE_READY)
    if instance is not None and instance.reason == ABSENT:
        yield RESYNC
    if seen.token and not seen.machine.spec.provider_id:
        ready = seen.known(Type.INSTANCE_READY)
        began = seen.now if ready is None else ready.last_transition_time
        yield began + create_timeout(seen) - seen.now


# -- writing it -----------------------------------------------------------------------------------


def _changes(
    seen: MachineObservation,
    found: Found,
    *,
    phase: MachinePhase,
    node_ref: NodeReference | None = None,
    initialized_at: datetime | None = None,
    provisioning: MachineProvisioning | None = None,
    last_operation: LastOperation | None = None,
) -> dict[str, Any]:
    """Return the merge patch of the status. It has only what differs, so it is often empty."""
    status, generation = seen.machine.status, seen.machine.metadata.generation
    conditions = merged(status.conditions, found, generation, seen.now)
    patch: dict[str, Any] = {}
    if conditions != list(status.conditions):
        patch["conditions"] = [condition.to_dict() for condition in conditions]
    if phase is not status.phase:
        patch["phase"] = str(phase)
    if status.observed_generation != generation:
        patch["observedGeneration"] = generation
    if node_ref is not None and node_ref != status.node_ref:
        patch["nodeRef"] = node_ref.to_dict()
    if initialized_at is not None and status.initialized_at is None:
        patch["initializedAt"] = format_time(initialized_at)
    if provisioning is not None and provisioning != status.provisioning:
        patch["provisioning"] = provisioning.to_dict()
    if last_operation is not None and last_operation != status.last_operation:
        patch["lastOperation"] = last_operation.to_dict()
    return patch
