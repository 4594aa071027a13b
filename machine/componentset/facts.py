"""Derive a set's member from a Machine, its Node and the liveness of its agent. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kubenode.api.v1alpha1 import Machine
from kubenode.api.v1alpha1.machine import MachineMode
from kubenode.api.v1alpha1.machinecomponent import MachineComponentSpec
from kubenode.api.v1alpha1.machinecomponentset import UpdateStrategy
from kubenode.api.v1alpha1.machinestatus import (
    ComponentState,
    ComponentStatus,
    MachineConditionType,
)
from kubenode.api.v1alpha1.machinework import AssignedComponent, ChangeClass, DesiredState
from kubenode.runtime.components.rollback import rollback_in
from kubenode.runtime.components.wire import WireConditionWanted
from kubenode.runtime.kube.objects import Node
from machine.componentset.member import MemberState, RolloutMember
from machine.machine.success import BAD, applied, reported, status_of

START_WITHIN = timedelta(minutes=10)
"""Time after the writing of a permit within which the agent must begin."""
REBOOT: timedelta = MachineComponentSpec.model_fields["reboot_timeout"].default
"""Default time for a reboot."""
ZONE = "zone"
"""Topology key that stands for the Machine's failureDomain."""
_ENDED = frozenset(
    {
        ComponentState.FAILED,
        ComponentState.ROLLED_BACK,
        ComponentState.UNHEALTHY,
        ComponentState.DRIFT_FIGHT,
    }
)
"""States in which an attempt has ended without success."""
AT_WORK = frozenset(
    {
        ComponentState.APPLYING,
        ComponentState.VERIFYING,
        ComponentState.UNDOING,
        ComponentState.REMOVING,
    }
)
"""States in which the agent is changing the host."""


@dataclass(frozen=True, slots=True)
class MachineSurroundings:
    """What is observed besides the Machine.

    node: the Node, None if there is none.
    answers: the agent's Lease is fresh.
    open_job: the open job that holds the Node, "" for none.
    """

    node: Node | None = None
    answers: bool = False
    open_job: str = ""


@dataclass(frozen=True, slots=True)
class SetView:
    """The parameters by which one set assesses its machines.

    set: the name of the set.
    family: the component that the set assigns, whatever its version.
    desired: the desired state in the set's spec.
    checks: by MachineComponent, the Node conditions that belong to the component's health.
    reboot: the time for a reboot, in addition to machineTimeout.
    """

    set: str
    family: str
    strategy: UpdateStrategy
    desired: DesiredState = DesiredState.RUNNING
    checks: Mapping[str, Sequence[WireConditionWanted]] = field(default_factory=dict)
    reboot: timedelta = REBOOT


def member_of(
    machine: Machine, around: MachineSurroundings, view: SetView, *, stale: bool = False
) -> RolloutMember:
    """Return the member for the machine.

    stale: whether the assignment was rendered from machine values that have changed since.
    """
    meta, spec, strategy = machine.metadata, machine.spec, view.strategy
    entry, status = entry_of(machine, view.set, view.family), status_of(machine, view.family)
    standing = standing_of(machine, around, view, entry, status)
    node = around.node
    rollback = rollback_in(meta.annotations, view.family)
    at = entry.revision if entry else ""
    ours = rollback is not None and rollback.job == around.open_job
    takes_pods = node is not None and node.is_ready and not node.spec.unschedulable
    return RolloutMember(
        name=meta.name,
        uid=meta.uid,
        zone=spec.failure_domain,
        domains=tuple(_domain(machine, each.topology_key) for each in strategy.spread),
        canary=strategy.canary is not None and strategy.canary.matches(meta.labels),
        fresh=status is None or not status.version,
        newcomer=newcomer(machine),
        answers=around.answers,
        available=around.answers and (not machine.expects_node or takes_pods),
        open_job=around.open_job,
        revision=at,
        attempt=entry.attempt if entry else 0,
        batch=entry.batch if entry else 0,
        stale=stale,
        standing=standing,
        drift=status is not None and status.state is ComponentState.DRIFTED,
        broken=status is not None and status.state in BAD,
        since=_since(machine, entry, standing, view.family),
        patience=_patience(machine, view),
        version=status.version if status else "",
        why=_why(status),
        back=rollback.to if rollback is not None and ours and at == rollback.from_ else "",
        rolled_back_from=rollback.from_ if rollback is not None and at == rollback.to else "",
        repaired=ours,
    )


def joined(machine: Machine) -> bool:
    """Return whether a set may assign to the machine.

    It must be managed, not be deleted, and its agent must have reported its host.
    """
    return (
        machine.metadata.deletion_timestamp is None
        and machine.spec.mode is MachineMode.MANAGE
        and machine.status.host is not None
    )


def newcomer(machine: Machine) -> bool:
    """Return whether nothing runs on the machine yet that a change could disturb."""
    return machine.starts_empty and machine.status.initialized_at is None


def entry_of(machine: Machine, set_: str, family: str) -> AssignedComponent | None:
    """Return what the set assigned to the machine, None for nothing."""
    return next((c for c in machine.spec.components if c.name == family and c.set == set_), None)


def covered(machine: Machine, family: str) -> bool:
    """Return whether the machine's permit names the component."""
    return machine.spec.permit is not None and family in machine.spec.permit.components


def needs_permit(status: ComponentStatus) -> bool:
    """Return whether the pending change disturbs enough to need a permit: class Restart or
    above.
    """
    return status.needs is not None and status.needs.weight >= ChangeClass.RESTART.weight


def standing_of(
    machine: Machine,
    around: MachineSurroundings,
    view: SetView,
    entry: AssignedComponent | None,
    status: ComponentStatus | None,
) -> MemberState:
    """Return the progress of the machine with the assignment."""
    if entry is None:
        return MemberState.NONE
    if entry.desired_state is DesiredState.STAGED and view.desired is not DesiredState.STAGED:
        return MemberState.AHEAD
    leave = covered(machine, view.family)
    if status is None or not reported(entry, status):
        return MemberState.ACTING if leave else MemberState.PENDING
    if applied(entry, status):
        return MemberState.SUCCEEDED if _well(machine, around, view, entry) else MemberState.UNWELL
    if status.state in _ENDED:
        return MemberState.FAILED
    if status.state in AT_WORK:
        return MemberState.ACTING
    if needs_permit(status):
        waits = MemberState.WAITING if around.answers else MemberState.PENDING
        return MemberState.ACTING if leave else waits
    return MemberState.DRIFTED if status.state is ComponentState.DRIFTED else MemberState.PENDING


def _well(
    machine: Machine, around: MachineSurroundings, view: SetView, entry: AssignedComponent
) -> bool:
    """Return whether agent, Node and the component's Node conditions are healthy."""
    if not around.answers:
        return False
    if not machine.expects_node or machine.status.node_ref is None:
        return True
    node = around.node
    if node is None or not node.is_ready:
        return False
    has = {condition.type: condition.status for condition in node.status.conditions}
    wanted = view.checks.get(entry.component, ())
    return all(has.get(check.type) == check.status for check in wanted)


def _domain(machine: Machine, key: str) -> str:
    """Return the machine's value of a topology key, "" if it has none."""
    return machine.spec.failure_domain if key == ZONE else machine.metadata.labels.get(key, "")


def permitted_at(machine: Machine) -> datetime | None:
    """Return the time at which the permit was written, None without a permit."""
    permit = machine.spec.permit
    return permit.start_before - START_WITHIN if permit is not None else None


def _since(
    machine: Machine, entry: AssignedComponent | None, standing: MemberState, family: str
) -> datetime | None:
    """Return the start of the member's timeout, None while no timeout runs.

    A change runs from its assignment or its permit, whichever is later. For an unwell member, the
    last transitions of the agent and Node conditions count as well.
    """
    if entry is None or entry.assigned_at is None:
        return None
    began = entry.assigned_at
    if covered(machine, family) and (permitted := permitted_at(machine)) is not None:
        began = max(began, permitted)
    match standing:
        case MemberState.PENDING | MemberState.ACTING:
            return began
        case MemberState.UNWELL:
            return max([began, *_turned(machine)])
        case _:
            return None


def _turned(machine: Machine) -> list[datetime]:
    """Return the transition times of the agent and Node conditions."""
    types = (MachineConditionType.AGENT_READY, MachineConditionType.NODE_READY)
    matches = (machine.status.condition(type_) for type_ in types)
    return [condition.last_transition_time for condition in matches if condition is not None]


def _patience(machine: Machine, view: SetView) -> timedelta:
    """Return the timeout of the member, longer if its permit allows a reboot."""
    permit, time = machine.spec.permit, view.strategy.machine_timeout
    reboots = permit is not None and permit.max_disruption is ChangeClass.REBOOT
    return time + view.reboot if reboots else time


def _why(status: ComponentStatus | None) -> str:
    """Return state, reason and message of the component, at most 200 characters."""
    if status is None:
        return ""
    text = ": ".join(part for part in (str(status.state), status.reason, status.message) if part)
    return text[:200]
