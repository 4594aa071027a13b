"""Decide the status of one Machine and the next act. Pure.

The status is written before the act, so that the intent is stored first: the client token before
the instance is created, the operation before the provider is called.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from kubenode.api.conditions import ConditionUpdate
from kubenode.api.meta import format_time
from kubenode.api.v1alpha1.machinestatus import (
    LastOperation,
    MachineConditionType,
    MachinePhase,
    MachineProvisioning,
    NodeReference,
)
from kubenode.providers.instances import client_token
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
from machine.machine.deletion import deletion, next_stage_since
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
from machine.machine.success import is_condition_true
from machine.names import PRESERVED

Type = MachineConditionType
ConditionUpdates = Mapping[MachineConditionType, ConditionUpdate | None]


def step(observation: MachineObservation) -> MachineStep:
    """Return the status change, the act, and when to reconcile again if nothing changes."""
    if observation.deleting:
        return _deleting(observation)
    planned, components = plan_of(observation), components_of(observation)
    instance, node = instance_ready(observation), node_ready(observation)
    health = healthy(observation, instance, node, components)
    updates: ConditionUpdates = {
        Type.INSTANCE_READY: instance,
        Type.NODE_READY: node,
        Type.NODE_SYNCED: node_synced(observation, planned),
        Type.COMPONENTS_READY: components_ready(observation),
        Type.UP_TO_DATE: up_to_date(observation),
        Type.HEALTHY: health,
        Type.AVAILABLE: available(observation, health),
        Type.DELETABLE: _preserved(observation),
    }
    last, operate = operation(observation)
    begun = _initialized_at(observation, node, health)
    facts = facts_of(observation, updates, components, begun)
    status = _changes(
        observation,
        updates,
        phase=next_phase(observation.machine.status.phase, facts),
        node_ref=_node_ref(observation, health),
        initialized_at=begun,
        provisioning=_provisioning(observation),
        last_operation=last,
    )
    act = MachineAct.NONE
    if observation.manages and not facts.failed:
        here = observation.provision or observation.joined or joins(observation, node)
        act = _act(observation, planned, operate) if observation.finalizer else _first_act(here)
    return MachineStep(status, act, None if facts.failed else _again(observation, updates))


def _deleting(observation: MachineObservation) -> MachineStep:
    if not observation.finalizer:
        updates: ConditionUpdates = {Type.AVAILABLE: available(observation, None)}
        return MachineStep(_changes(observation, updates, phase=MachinePhase.DELETING))
    hold = deletion(observation)
    updates = {Type.AVAILABLE: available(observation, None), Type.DELETABLE: hold.condition}
    since = next_stage_since(observation, hold.stage)
    status = _changes(observation, updates, phase=MachinePhase.DELETING, stage_since=since)
    return MachineStep(status, hold.act, hold.again)


def _preserved(observation: MachineObservation) -> ConditionUpdate | None:
    """Return condition Deletable for a Machine that its set preserves, or no longer preserves."""
    if until := observation.machine.metadata.annotations.get(PRESERVED, ""):
        return ConditionUpdate(FALSE, "Preserved", f"kept for people until {until}")
    was = observation.reason(Type.DELETABLE) == "Preserved"
    return ConditionUpdate(TRUE, "NotPreserved", "its set may give it up") if was else None


def plan_of(observation: MachineObservation) -> NodePatch | None:
    """Return the planned changes of the Node.

    None if there is no Node yet, the Node is not this Machine's, or the Machine does not manage
    one.
    """
    machine = observation.machine
    if (
        not observation.manages
        or not observation.expects_node
        or observation.conflict
        or observation.node is None
    ):
        return None
    if (
        machine.status.node_ref is None
        or machine.status.node_ref.uid != observation.node.metadata.uid
    ):
        return None
    return plan(
        observation.node,
        machine.metadata.name,
        machine.spec.node_template,
        initialized=machine.status.initialized_at is not None,
        starts_empty=machine.starts_empty,
    )


def facts_of(
    observation: MachineObservation,
    updates: ConditionUpdates,
    components: ComponentProgress,
    initialized_at: datetime | None,
) -> MachineFacts:
    """Return the facts that determine the phase, with the conditions as they will be written."""
    instance, health = updates.get(Type.INSTANCE_READY), updates.get(Type.HEALTHY)
    reasons = {
        observation.reason(Type.INSTANCE_READY) if instance is None else instance.reason,
        observation.reason(Type.HEALTHY) if health is None else health.reason,
    }
    health_reason = observation.reason(Type.HEALTHY) if health is None else health.reason
    return MachineFacts(
        provision=observation.provision,
        deleting=observation.deleting,
        failed=bool(reasons & (FINAL | {Starting.TIMEOUT})),
        token=bool(observation.token),
        instance=bool(observation.machine.spec.provider_id),
        joined=health_reason not in ("", Starting.WAITING, Starting.TIMEOUT),
        initialized=initialized_at is not None,
        lease=is_condition_true(observation.machine, Type.AGENT_READY),
        node=_node_state(observation, updates.get(Type.NODE_READY)),
        components=components,
        settled=settled(observation, health) or _never_unwell(observation, health, initialized_at),
    )


def _node_state(observation: MachineObservation, node: ConditionUpdate | None) -> NodeState:
    if not observation.expects_node:
        return NodeState.NONE
    return NodeState.READY if node is not None and node.status == TRUE else NodeState.NOT_READY


def _never_unwell(
    observation: MachineObservation, health: ConditionUpdate | None, initialized_at: datetime | None
) -> bool:
    """Return whether the Machine has been well since it was initialized, so it need not settle
    again.
    """
    known = observation.known(Type.HEALTHY)
    if initialized_at is None or (health is not None and health.status != TRUE):
        return False
    if known is None or known.status != TRUE:
        return observation.machine.status.initialized_at is None
    return known.last_transition_time <= initialized_at


def _initialized_at(
    observation: MachineObservation, node: ConditionUpdate | None, health: ConditionUpdate | None
) -> datetime | None:
    """Return when the Machine was first complete. Once set, the time stays."""
    known = observation.machine.status.initialized_at
    if known is not None or health is None or health.status != TRUE:
        return known
    return observation.now if whole(observation, node) else None


def _node_ref(
    observation: MachineObservation, health: ConditionUpdate | None
) -> NodeReference | None:
    """Return the reference to the Node, which is set when it is Ready for the first time.

    A Node with a new uid replaces the reference; a missing Node keeps it.
    """
    known, node = observation.machine.status.node_ref, observation.node
    if node is None or observation.conflict or not observation.expects_node:
        return known
    if known is not None and known.uid == node.metadata.uid:
        return known
    here = observation.joined or (health is not None and health.reason != Starting.WAITING)
    if not here or not node.is_ready:
        return known
    return NodeReference(name=node.metadata.name, uid=node.metadata.uid)


def _provisioning(observation: MachineObservation) -> MachineProvisioning | None:
    """Return the client token, which is stored before the first request with it and never
    changes.
    """
    known = observation.machine.status.provisioning
    if observation.token or not (
        observation.provision and observation.manages and observation.finalizer
    ):
        return known
    if observation.class_ is None or not observation.class_.hash:
        return known
    token = client_token(observation.machine.metadata.uid, 1)
    return MachineProvisioning(client_token=token, class_hash=observation.class_.hash, attempts=1)


def _first_act(here: bool) -> MachineAct:
    """Return the act that adds the finalizer, by which whatever is made later can be cleaned up.

    here: whether the host belongs to the Machine by now.
    """
    return MachineAct.ADD_FINALIZER if here else MachineAct.NONE


def _act(
    observation: MachineObservation, planned: NodePatch | None, operate: MachineAct
) -> MachineAct:
    spec = observation.machine.spec
    if operate is not MachineAct.NONE:
        return operate
    if observation.provision and not spec.provider_id:
        if observation.instance.state is InstanceRequestState.PRESENT:
            return MachineAct.ADOPT
        ready = (
            observation.token
            and observation.tokened
            and observation.instance.state is InstanceRequestState.ABSENT
        )
        return MachineAct.CREATE if ready else MachineAct.NONE
    instance = observation.instance.instance
    if instance is not None and instance.addresses and not spec.addresses:
        return MachineAct.ADOPT
    if (
        planned is not None
        and planned.body
        and not observation.fighting
        and not gave_up(observation)
    ):
        return MachineAct.SYNC
    return MachineAct.NONE


# -- when to look again ---------------------------------------------------------------------------


def _again(observation: MachineObservation, updates: ConditionUpdates) -> timedelta | None:
    waits = [
        observation.instance.again,
        observation.act_result.again,
        *_limits(observation, updates),
    ]
    due = [max(wait, timedelta(0)) for wait in waits if wait is not None]
    return min(due, default=None)


def _limits(
    observation: MachineObservation, updates: ConditionUpdates
) -> Iterable[timedelta | None]:
    """Yield the times after which a decision can change: startup, minReady, create timeout, a
    resync.
    """
    health = updates.get(Type.HEALTHY)
    known = observation.known(Type.HEALTHY)
    if health is not None and health.reason == Starting.WAITING:
        began = observation.now if known is None else known.last_transition_time
        remaining = began + startup_timeout(observation) - observation.now
        yield SOON if remaining <= timedelta(0) else remaining
    if health is not None and health.status == TRUE and not settled(observation, health):
        began = known.last_transition_time if known and known.status == TRUE else observation.now
        yield began + observation.machine.spec.min_ready - observation.now
    instance = updates.get(Type.INSTANCE_READY)
    if instance is not None and instance.reason == ABSENT:
        yield RESYNC
    if observation.token and not observation.machine.spec.provider_id:
        ready = observation.known(Type.INSTANCE_READY)
        began = observation.now if ready is None else ready.last_transition_time
        yield began + create_timeout(observation) - observation.now


# -- writing it -----------------------------------------------------------------------------------


def _changes(
    observation: MachineObservation,
    updates: ConditionUpdates,
    *,
    phase: MachinePhase,
    node_ref: NodeReference | None = None,
    initialized_at: datetime | None = None,
    provisioning: MachineProvisioning | None = None,
    last_operation: LastOperation | None = None,
    stage_since: datetime | None = None,
) -> dict[str, Any]:
    """Return the merge patch of the status. It has only what differs, so it is often empty."""
    status, generation = observation.machine.status, observation.machine.metadata.generation
    conditions = merged(status.conditions, updates, generation, observation.now)
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
    if stage_since is not None:
        patch["deletionStageSince"] = format_time(stage_since)
    if provisioning is not None and provisioning != status.provisioning:
        patch["provisioning"] = provisioning.to_dict()
    if last_operation is not None and last_operation != status.last_operation:
        patch["lastOperation"] = last_operation.to_dict()
    return patch
