"""Operations that a repair requests in `spec.operation`, answered in `status.lastOperation`. Pure.

The status records Running before the provider is called. The call uses the operation's ID until
there is an answer, so that a call repeated after a crash is idempotent.
"""

from kubenode.api.v1alpha1.machinestatus import LastOperation, OperationState
from kubenode.api.v1alpha1.machinework import MachineOperation, MachineOperationType
from kubenode.providers.instances import ErrorCode
from machine.machine.model import MachineAct, MachineObservation

RUNNING, SUCCEEDED, FAILED = OperationState.RUNNING, OperationState.SUCCEEDED, OperationState.FAILED


def operation(observation: MachineObservation) -> tuple[LastOperation | None, MachineAct]:
    """Return the new `lastOperation`, and the act to do once it is written."""
    wanted, last = observation.machine.spec.operation, observation.machine.status.last_operation
    if wanted is None:
        return last, MachineAct.NONE
    if last is None or (last.id, last.type) != (wanted.id, wanted.type):
        refused = _refused(observation, wanted.type)
        return _answer(
            observation, wanted, FAILED if refused else RUNNING, refused
        ), MachineAct.NONE
    if last.state is not RUNNING:
        return last, MachineAct.NONE
    if observation.act_result.act is MachineAct.OPERATE:
        return _record_answer(observation, wanted, last), MachineAct.NONE
    if observation.frozen:
        return last, MachineAct.NONE
    return (
        last,
        MachineAct.REPLACE if wanted.type is MachineOperationType.REPLACE else MachineAct.OPERATE,
    )


def replaces(observation: MachineObservation) -> bool:
    """Return whether the Machine is deleted for a job, which has drained its node under its own
    permit.
    """
    last, wanted = observation.machine.status.last_operation, observation.machine.spec.operation
    return (
        wanted is not None
        and last is not None
        and last.id == wanted.id
        and wanted.type is MachineOperationType.REPLACE
        and last.state is RUNNING
    )


def _refused(observation: MachineObservation, type_: MachineOperationType) -> str:
    """Return why the operation cannot be requested, as an error code; "" if it can."""
    if (
        not observation.manages
        or not observation.machine.spec.provider_id
        or not observation.provision
    ):
        return ErrorCode.FAILED_PRECONDITION
    if type_ is MachineOperationType.REPLACE and not observation.owned:
        return ErrorCode.FAILED_PRECONDITION
    return ""


def _record_answer(
    observation: MachineObservation, wanted: MachineOperation, last: LastOperation
) -> LastOperation:
    """Return the new `lastOperation` after the provider's answer."""
    result = observation.act_result
    if result.code is ErrorCode.OK:
        return _answer(observation, wanted, SUCCEEDED, ErrorCode.OK)
    if result.final:
        return _answer(observation, wanted, FAILED, result.code)
    return last if last.code == result.code else _answer(observation, wanted, RUNNING, result.code)


def _answer(
    observation: MachineObservation, wanted: MachineOperation, state: OperationState, code: str
) -> LastOperation:
    return LastOperation(id=wanted.id, type=wanted.type, state=state, code=code, at=observation.now)
