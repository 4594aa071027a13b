"""Operations that a repair requests in `spec.operation`, answered in `status.lastOperation`. Pure.

The status records Running before the provider is called. The call uses the operation's ID until
there is an answer, so that a call repeated after a crash is idempotent.
"""

from kubenode.api.v1alpha1.machinestatus import LastOperation, OperationState
from kubenode.api.v1alpha1.machinework import MachineOperation, MachineOperationType
from kubenode.providers.instances import ErrorCode
from machine.machine.model import MachineAct, MachineObservation

RUNNING, SUCCEEDED, FAILED = OperationState.RUNNING, OperationState.SUCCEEDED, OperationState.FAILED


def operation(seen: MachineObservation) -> tuple[LastOperation | None, MachineAct]:
    """Return the new `lastOperation`, and the act to do once it is written."""
    wanted, last = seen.machine.spec.operation, seen.machine.status.last_operation
    if wanted is None:
        return last, MachineAct.NONE
    if last is None or (last.id, last.type) != (wanted.id, wanted.type):
        refused = _refused(seen, wanted.type)
        return _answer(seen, wanted, FAILED if refused else RUNNING, refused), MachineAct.NONE
    if last.state is not RUNNING:
        return last, MachineAct.NONE
    if seen.heard.act is MachineAct.OPERATE:
        return _heard(seen, wanted, last), MachineAct.NONE
    if seen.frozen:
        return last, MachineAct.NONE
    return (
        last,
        MachineAct.REPLACE if wanted.type is MachineOperationType.REPLACE else MachineAct.OPERATE,
    )


def replaces(seen: MachineObservation) -> bool:
    """Return whether the Machine is deleted for a job, which has drained its node under its own
    permit.
    """
    last, wanted = seen.machine.status.last_operation, seen.machine.spec.operation
    return (
        wanted is not None
        and last is not None
        and last.id == wanted.id
        and wanted.type is MachineOperationType.REPLACE
        and last.state is RUNNING
    )


def _refused(seen: MachineObservation, type_: MachineOperationType) -> str:
    """Return why the operation cannot be requested, as an error code; "" if it can."""
    if not seen.manages or not seen.machine.spec.provider_id or not seen.provision:
        return ErrorCode.FAILED_PRECONDITION
    if type_ is MachineOperationType.REPLACE and not seen.owned:
        return ErrorCode.FAILED_PRECONDITION
    return ""


def _heard(
    seen: MachineObservation, wanted: MachineOperation, last: LastOperation
) -> LastOperation:
    """Return the new `lastOperation` after the provider's answer."""
    heard = seen.heard
    if heard.code is ErrorCode.OK:
        return _answer(seen, wanted, SUCCEEDED, ErrorCode.OK)
    if heard.final:
        return _answer(seen, wanted, FAILED, heard.code)
    return last if last.code == heard.code else _answer(seen, wanted, RUNNING, heard.code)


def _answer(
    seen: MachineObservation, wanted: MachineOperation, state: OperationState, code: str
) -> LastOperation:
    return LastOperation(id=wanted.id, type=wanted.type, state=state, code=code, at=seen.now)
