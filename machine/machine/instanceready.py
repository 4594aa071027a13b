"""Condition InstanceReady of provisioned Machines: whether the instance exists and runs. Pure."""

from datetime import timedelta

from kubenode.api.conditions import ConditionUpdate
from kubenode.api.meta import Condition, ConditionStatus
from kubenode.api.v1alpha1.machinestatus import MachineConditionType
from kubenode.providers.instances import ErrorCode, InstanceState
from machine.machine.model import CREATE_TIMEOUT, RESYNC, InstanceRequestState, MachineObservation

TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN
CREATE_FAILED, INSTANCE_GONE, ABSENT = "CreateFailed", "InstanceGone", "Absent"
FINAL = frozenset({CREATE_FAILED, INSTANCE_GONE})
"""Reasons that are final: the Machine has failed."""


def instance_ready(observation: MachineObservation) -> ConditionUpdate | None:
    """Return condition InstanceReady, None to leave it as it is."""
    if not observation.provision or observation.deleting:
        return None
    known, answer = observation.known(MachineConditionType.INSTANCE_READY), observation.instance
    if known is not None and known.reason in FINAL:
        return None
    if answer.state is InstanceRequestState.PRESENT and answer.instance is not None:
        return _describe_state(answer.instance.state, answer.instance.raw)
    if observation.machine.spec.provider_id:
        return _absent(observation, known) if answer.state is InstanceRequestState.ABSENT else None
    return _creating(observation, known)


def _describe_state(state: InstanceState, raw: str) -> ConditionUpdate:
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


def _absent(observation: MachineObservation, known: Condition | None) -> ConditionUpdate | None:
    """Return the condition for an instance that the provider does not find.

    It is gone if two answers at least RESYNC apart say so. During a meltdown nothing changes.
    """
    if observation.frozen:
        return None
    if known is None or known.reason != ABSENT:
        return ConditionUpdate(
            UNKNOWN, ABSENT, "its provider does not find the instance: asked once more"
        )
    if observation.now - known.last_transition_time < RESYNC:
        return None
    return ConditionUpdate(
        FALSE, INSTANCE_GONE, f"its provider has no instance {_id(observation)} any more"
    )


def _creating(observation: MachineObservation, known: Condition | None) -> ConditionUpdate:
    """Return the condition while the instance is being created."""
    answer, limit = observation.instance, create_timeout(observation)
    if answer.state is InstanceRequestState.ERROR and answer.final:
        return ConditionUpdate(FALSE, CREATE_FAILED, f"{answer.code}: {answer.message}")
    if (
        observation.token
        and known is not None
        and observation.now - known.last_transition_time >= limit
    ):
        why = f": {known.message}" if known.message else ""
        return ConditionUpdate(FALSE, CREATE_FAILED, f"no instance in time{why}"[:1024])
    if answer.state is InstanceRequestState.ERROR:
        quota = answer.code is ErrorCode.RESOURCE_EXHAUSTED
        return ConditionUpdate(
            FALSE, "QuotaExceeded" if quota else "Creating", f"{answer.code}: {answer.message}"
        )
    if known is not None and known.reason == "QuotaExceeded":
        return ConditionUpdate(known.status, known.reason, known.message)
    if not observation.token and (observation.class_ is None or not observation.class_.hash):
        name = observation.machine.spec.class_ref
        return ConditionUpdate(
            FALSE, "Creating", f"waits for MachineClass {name}: it is not there, or new"
        )
    return ConditionUpdate(FALSE, "Creating", "its instance is asked for")


def create_timeout(observation: MachineObservation) -> timedelta:
    """Return the time in which the instance must be created."""
    return observation.class_.create_timeout if observation.class_ else CREATE_TIMEOUT


def _id(observation: MachineObservation) -> str:
    return observation.machine.spec.provider_id
