"""Condition InstanceReady of provisioned Machines: whether the instance exists and runs. Pure."""

from datetime import timedelta

from kubenode.api.meta import Condition, ConditionStatus
from kubenode.api.v1alpha1.machinestatus import MachineConditionType
from kubenode.providers.instances import ErrorCode, InstanceState
from machine.bootstrap.agentready import ConditionUpdate
from machine.machine.model import CREATE_TIMEOUT, RESYNC, InstanceRequestState, MachineObservation

TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN
CREATE_FAILED, INSTANCE_GONE, ABSENT = "CreateFailed", "InstanceGone", "Absent"
FINAL = frozenset({CREATE_FAILED, INSTANCE_GONE})
"""Reasons that are final: the Machine has failed."""


def instance_ready(seen: MachineObservation) -> ConditionUpdate | None:
    """Return condition InstanceReady, None to leave it as it is."""
    if not seen.provision or seen.deleting:
        return None
    known, asked = seen.known(MachineConditionType.INSTANCE_READY), seen.instance
    if known is not None and known.reason in FINAL:
        return None
    if asked.asked is InstanceRequestState.FOUND and asked.instance is not None:
        return _found(asked.instance.state, asked.instance.raw)
    if seen.machine.spec.provider_id:
        return _absent(seen, known) if asked.asked is InstanceRequestState.ABSENT else None
    return _creating(seen, known)


def _found(state: InstanceState, raw: str) -> ConditionUpdate:
    match state:
        case InstanceState.RUNNING:
            return ConditionUpdate(TRUE, "Running", "its instance runs")
        case InstanceState.PENDING:
            return ConditionUpdate(FALSE, "Creating", f"its instance is being made: {raw}")
        case InstanceState.STOPPED:
            return ConditionUpdate(FALSE, "Stopped", f"its instance is switched off: {raw}")
        case InstanceState.ENDING:
            return ConditionUpdate(FALSE, "Ending", f"its instance is being ended: {raw}")
        case InstanceState.FAILED:
            return ConditionUpdate(FALSE, CREATE_FAILED, f"its instance could not be made: {raw}")
        case InstanceState.UNKNOWN:
            return ConditionUpdate(UNKNOWN, "Unknown", f"its provider says {raw!r}")


def _absent(seen: MachineObservation, known: Condition | None) -> ConditionUpdate | None:
    """Return the condition for an instance that the provider does not find.

    It is gone if two answers at least RESYNC apart say so. During a meltdown nothing changes.
    """
    if seen.frozen:
        return None
    if known is None or known.reason != ABSENT:
        return ConditionUpdate(
            UNKNOWN, ABSENT, "its provider does not find the instance: asked once more"
        )
    if seen.now - known.last_transition_time < RESYNC:
        return None
    return ConditionUpdate(
        FALSE, INSTANCE_GONE, f"its provider has no instance {_id(seen)} any more"
    )


def _creating(seen: MachineObservation, known: Condition | None) -> ConditionUpdate:
    """Return the condition while the instance is being created."""
    asked, limit = seen.instance, create_timeout(seen)
    if asked.asked is InstanceRequestState.ERROR and asked.final:
        return ConditionUpdate(FALSE, CREATE_FAILED, f"{asked.code}: {asked.told}")
    if seen.token and known is not None and seen.now - known.last_transition_time >= limit:
        why = f": {known.message}" if known.message else ""
        return ConditionUpdate(FALSE, CREATE_FAILED, f"no instance in time{why}"[:1024])
    if asked.asked is InstanceRequestState.ERROR:
        quota = asked.code is ErrorCode.RESOURCE_EXHAUSTED
        return ConditionUpdate(
            FALSE, "QuotaExceeded" if quota else "Creating", f"{asked.code}: {asked.told}"
        )
    if known is not None and known.reason == "QuotaExceeded":
        return ConditionUpdate(known.status, known.reason, known.message)
    if not seen.token and (seen.class_ is None or not seen.class_.hash):
        name = seen.machine.spec.class_ref
        return ConditionUpdate(
            FALSE, "Creating", f"waits for MachineClass {name}: it is not there, or new"
        )
    return ConditionUpdate(FALSE, "Creating", "its instance is asked for")


def create_timeout(seen: MachineObservation) -> timedelta:
    """Return the time in which the instance must be created."""
    return seen.class_.create_timeout if seen.class_ else CREATE_TIMEOUT


def _id(seen: MachineObservation) -> str:
    return seen.machine.spec.provider_id
