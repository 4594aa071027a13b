"""Computes the next state or act of one component from its record and an observation. Pure.

The state is on disk before its act begins. After a crash the next process reads the state and
repeats the act, which is idempotent.
"""

from enum import StrEnum

from msgspec.structs import replace

from agent.components.before import Before, as_is
from agent.components.differences import AT_ONCE
from agent.components.drift.fight import FRESH
from agent.components.model import (
    MOVING,
    PUT,
    PUT_BACK,
    TAKE,
    ComponentApplyState,
    ComponentHealth,
    ComponentMove,
    ComponentObservation,
    ComponentRecord,
    MoveResult,
    Off,
    StoredComponent,
)
from kubenode.runtime.components.change import same as same_form
from kubenode.runtime.components.wire import WireChangeClass, WireDesiredState, WireUndoMode

MOST_TRIES = 3
"""Number of processes or boots that may find a change unfinished before it is undone."""

STAYS = "Stays"
NOT_HEALTHY_YET = "NotHealthyYet"
"""Reason of the state Absent if something of the host could not be restored."""

OWN_END = "the agent cannot tell of its own end: `kubenode machine export` takes it off"

_S = ComponentApplyState
_ANEW = frozenset({_S.PENDING})
"""Next states for a new revision or attempt, which starts over."""
EDGES: dict[ComponentApplyState, frozenset[ComponentApplyState]] = {
    _S.PENDING: frozenset(
        {_S.BLOCKED, _S.STAGING, _S.VERIFYING, _S.REMOVING, _S.ABSENT},
    ),
    _S.BLOCKED: frozenset({_S.STAGING, _S.VERIFYING, _S.REMOVING, _S.ABSENT}) | _ANEW,
    _S.STAGING: frozenset({_S.STAGED, _S.BLOCKED, _S.FAILED}) | _ANEW,
    _S.STAGED: frozenset({_S.APPLYING, _S.VERIFYING, _S.BLOCKED}) | _ANEW,
    _S.APPLYING: frozenset({_S.VERIFYING, _S.UNDOING, _S.FAILED}) | _ANEW,
    _S.VERIFYING: frozenset({_S.HEALTHY, _S.UNHEALTHY, _S.UNDOING, _S.FAILED}) | _ANEW,
    _S.UNDOING: frozenset({_S.ROLLED_BACK, _S.FAILED}) | _ANEW,
    _S.REMOVING: frozenset({_S.ABSENT, _S.FAILED}) | _ANEW,
    _S.HEALTHY: frozenset({_S.UNHEALTHY, _S.DRIFTED, _S.DRIFT_FIGHT, _S.APPLYING}) | _ANEW,
    _S.UNHEALTHY: frozenset({_S.HEALTHY, _S.DRIFTED, _S.DRIFT_FIGHT, _S.APPLYING}) | _ANEW,
    _S.DRIFTED: frozenset({_S.HEALTHY, _S.UNHEALTHY, _S.DRIFT_FIGHT, _S.APPLYING}) | _ANEW,
    _S.DRIFT_FIGHT: frozenset({_S.APPLYING}) | _ANEW,
    _S.ROLLED_BACK: frozenset({_S.APPLYING}) | _ANEW,
    _S.FAILED: _ANEW,
    _S.ABSENT: _ANEW,
}
LIVE = frozenset({_S.HEALTHY, _S.UNHEALTHY, _S.DRIFTED, _S.DRIFT_FIGHT})
WAITING = frozenset({_S.PENDING, _S.BLOCKED, _S.STAGING, _S.STAGED, _S.ROLLED_BACK})
"""States in which a change waits or was undone; what is applied is kept as it is."""


class ComponentAct(StrEnum):
    """What the engine does next.

    STAGE: download
    MOVE: execute the record's move
    REBOOT: reboot the host once all changes that share the reboot are ready
    START, CORRECT: see Off
    FORGET: drop the record, because the Machine no longer assigns the component
    """

    NONE = "none"
    STAGE = "stage"
    MOVE = "move"
    REBOOT = "reboot"
    START = "start"
    CORRECT = "correct"
    FORGET = "forget"


Next = tuple[ComponentRecord, ComponentAct]


def step(record: ComponentRecord, observation: ComponentObservation) -> Next:
    """Change the record or choose one act, never both, so that the intent is on disk first."""
    if observation.known and record.state not in MOVING:
        if observation.assigned is None:
            return record, ComponentAct.FORGET
        if (record.revision, record.attempt) != (
            observation.assigned.revision,
            observation.assigned.attempt,
        ):
            return _anew(
                record, observation.assigned.revision, observation.assigned.attempt
            ), ComponentAct.NONE
    match record.state:
        case ComponentApplyState.PENDING | ComponentApplyState.BLOCKED:
            return _begin(record, observation)
        case ComponentApplyState.STAGING:
            return _staging(record, observation)
        case ComponentApplyState.STAGED:
            return _staged(record, observation)
        case (
            ComponentApplyState.APPLYING
            | ComponentApplyState.UNDOING
            | ComponentApplyState.REMOVING
        ):
            return _moving(record, observation)
        case ComponentApplyState.VERIFYING:
            return _verifying(record, observation)
        case (
            ComponentApplyState.HEALTHY
            | ComponentApplyState.UNHEALTHY
            | ComponentApplyState.DRIFTED
            | ComponentApplyState.DRIFT_FIGHT
        ):
            return _live(record, observation)
        case ComponentApplyState.ROLLED_BACK:
            return _maintain(record, observation)
        case ComponentApplyState.FAILED | ComponentApplyState.ABSENT:
            return record, ComponentAct.NONE


def taken_up(record: ComponentRecord) -> ComponentRecord:
    """Count one more attempt on a record that a new process or boot finds unfinished."""
    if record.state not in MOVING or record.interrupted:
        return record
    return replace(record, tries=record.tries + 1)


def interrupted(record: ComponentRecord) -> ComponentRecord:
    """Mark a change whose next act has no valid permit: it requests one again."""
    return replace(record, needs=record.how)


def disturbs(record: ComponentRecord) -> bool:
    """Return whether the record's move needs a permit that is valid when the move begins."""
    return (
        record.how.weight >= WireChangeClass.RESTART.weight and record.at is not ComponentMove.NOTE
    )


def repairing(record: ComponentRecord) -> ComponentRecord | None:
    """Start to apply again what is applied, under the caller's permit; None if it is impossible.

    An interrupted repair may be started again.
    """
    again = (
        record.interrupted
        and record.state is ComponentApplyState.APPLYING
        and record.target is not None
    )
    mine = again and record.applied == record.target
    if record.applied is None or not (
        mine or record.state in LIVE | {ComponentApplyState.ROLLED_BACK}
    ):
        return None
    return _applying(record, record.applied, WireChangeClass.RESTART, there=True)


def _to(
    record: ComponentRecord, state: ComponentApplyState, reason: str = "", message: str = ""
) -> ComponentRecord:
    return replace(record, state=state, reason=reason, message=message, needs=None)


def _says(
    record: ComponentRecord, reason: str, message: str = "", needs: WireChangeClass | None = None
) -> Next:
    return replace(record, reason=reason, message=message, needs=needs), ComponentAct.NONE


def _anew(record: ComponentRecord, revision: str, attempt: int) -> ComponentRecord:
    if record.state is ComponentApplyState.VERIFYING and record.target is not None:
        # Completely applied, though not yet healthy: keep what was applied before for an undo.
        record = _settled(record, record.target)
    return replace(
        _to(record, ComponentApplyState.PENDING),
        revision=revision,
        attempt=attempt,
        target=None,
        staged_at=None,
        tries=0,
        fights=FRESH,
    )


# -- before a change ------------------------------------------------------------------------------


def _begin(record: ComponentRecord, observation: ComponentObservation) -> Next:
    if hold := _find_hold(record, observation):
        return hold
    assert observation.assigned is not None and observation.target is not None
    match observation.assigned.desired_state:
        case WireDesiredState.ABSENT:
            return _leave(record, observation)
        case WireDesiredState.RUNNING | WireDesiredState.INSTALLED if observation.same:
            return _as_it_is(record, observation), ComponentAct.NONE
        case WireDesiredState.RUNNING | WireDesiredState.INSTALLED | WireDesiredState.STAGED:
            return _to(record, ComponentApplyState.STAGING), ComponentAct.NONE
        case unknown:
            return _blocked(
                record, observation, "NotUnderstood", f"desiredState {unknown}: update the agent"
            )


def _find_hold(record: ComponentRecord, observation: ComponentObservation) -> Next | None:
    """Return the next step if nothing may begin; None if a change may begin."""
    reason, message = observation.problem
    if reason:
        return _blocked(record, observation, reason, message)
    if not observation.known or observation.target is None:
        return _maintain(record, observation)
    if observation.observe:
        resting = (
            record
            if record.state is not ComponentApplyState.BLOCKED
            else _to(record, ComponentApplyState.PENDING)
        )
        return _says(resting, "Observed", "the Machine's mode is Observe: nothing is changed")
    return None


def _blocked(
    record: ComponentRecord, observation: ComponentObservation, reason: str, message: str
) -> Next:
    if (record.state, record.reason, record.message) == (
        ComponentApplyState.BLOCKED,
        reason,
        message,
    ):
        return _maintain(record, observation)
    return _to(record, ComponentApplyState.BLOCKED, reason, message), ComponentAct.NONE


def _as_it_is(record: ComponentRecord, observation: ComponentObservation) -> ComponentRecord:
    """Skip to verification: nothing to change or restart (F35), but health is checked first
    (F31).
    """
    before = record.before
    if (
        _untouched(record)
        and observation.target is not None
        and observation.target.form is not None
    ):
        before = as_is(observation.target.form)
    changed = replace(
        record,
        target=observation.target,
        how=WireChangeClass.NONE,
        at=None,
        fresh=False,
        before=before,
    )
    return _to(changed, ComponentApplyState.VERIFYING)


def _leave(record: ComponentRecord, observation: ComponentObservation) -> Next:
    if not observation.there and record.applied is None and record.stray is None:
        return _to(replace(record, previous=None), ComponentApplyState.ABSENT), ComponentAct.NONE
    agent = observation.target is not None and observation.target.is_agent
    if agent and not observation.leaving:
        return _blocked(record, observation, "AgentItself", OWN_END)
    if observation.leaving and (agent or _matches_original(record)):
        gone = replace(record, applied=None, previous=None, target=None, before=None)
        return _to(gone, ComponentApplyState.ABSENT), ComponentAct.NONE
    if asks := _asks(record, observation):
        return asks
    removing = replace(
        record,
        target=observation.target,
        how=observation.how,
        at=TAKE[0],
        tries=0,
        started={},
        leaving=observation.leaving,
    )
    return _to(removing, ComponentApplyState.REMOVING), ComponentAct.NONE


def _untouched(record: ComponentRecord) -> bool:
    """Return whether nothing of the component is on the host yet."""
    return record.applied is None and record.stray is None and record.before is None


def _matches_original(record: ComponentRecord) -> bool:
    """Return whether what is applied was on the host before the component, unchanged."""
    form = record.applied.form if record.applied is not None else None
    return form is not None and record.stray is None and record.before == as_is(form)


def _asks(record: ComponentRecord, observation: ComponentObservation) -> Next | None:
    """Return the wait for other components or for a permit; None if neither is needed."""
    needs = _permit_class(observation)
    if observation.waits:
        status = ("WaitingForOthers", observation.waits)
    elif needs is not None:
        status = ("WaitingForPermit", f"a change of class {needs} waits for a permit")
    else:
        return None
    if (record.reason, record.message, record.needs) == (*status, needs):
        return _maintain(record, observation)
    return _says(record, *status, needs)


def _permit_class(observation: ComponentObservation) -> WireChangeClass | None:
    """Return the class of the permit that the change needs; None if it needs none or may begin.

    A permitted change that waits for another component still needs its permit: the operator takes
    away a permit that nothing needs, and each one counts against the limit of the node.
    """
    if observation.how in AT_ONCE or (observation.permitted and not observation.waits):
        return None
    return observation.how


def _staging(record: ComponentRecord, observation: ComponentObservation) -> Next:
    if hold := _find_hold(record, observation):
        return hold
    if observation.done is None:
        return record, ComponentAct.STAGE
    if not observation.done.text:
        return replace(
            _to(record, ComponentApplyState.STAGED), staged_at=observation.now
        ), ComponentAct.NONE
    if observation.done.final:
        return _to(
            record, ComponentApplyState.FAILED, "StageFailed", observation.done.text
        ), ComponentAct.NONE
    return _says(record, "StageFailed", observation.done.text)


def _staged(record: ComponentRecord, observation: ComponentObservation) -> Next:
    if hold := _find_hold(record, observation):
        return hold
    assert observation.assigned is not None and observation.target is not None
    if observation.assigned.desired_state == WireDesiredState.STAGED:
        return _maintain(record, observation)
    if observation.same:
        return _as_it_is(record, observation), ComponentAct.NONE
    if asks := _asks(record, observation):
        return asks
    return _applying(
        record, observation.target, observation.how, there=observation.there
    ), ComponentAct.NONE


def _applying(
    record: ComponentRecord, target: StoredComponent, how: WireChangeClass, *, there: bool
) -> ComponentRecord:
    begun = replace(
        record,
        target=target,
        how=how,
        at=PUT[0],
        tries=0,
        started={},
        boot_id="",
        fresh=record.applied is None and record.stray is None and not there,
        before=Before() if _untouched(record) else record.before,
    )
    return _to(begun, ComponentApplyState.APPLYING)


# -- during a change ------------------------------------------------------------------------------


def _moving(record: ComponentRecord, observation: ComponentObservation) -> Next:
    if record.interrupted and not _rebooted(record, observation):
        return _standing(record, observation)
    if record.at is ComponentMove.REBOOT:
        return _rebooting(record, observation)
    if record.tries > MOST_TRIES:
        return _gives_up(record, f"interrupted {record.tries} times at {record.at}")
    if observation.done is None:
        return record, ComponentAct.MOVE
    if observation.done.text:
        return _gives_up(record, observation.done.text)
    return _next_move(record, observation.done, observation.boot_id), ComponentAct.NONE


def moves(record: ComponentRecord) -> tuple[ComponentMove, ...]:
    """Return the sequence of moves for the record's state."""
    if record.state is ComponentApplyState.APPLYING:
        return PUT
    if record.state is ComponentApplyState.UNDOING and record.applied is not None:
        scripted = record.target is not None and record.target.spec.undo.mode is WireUndoMode.SCRIPT
        return PUT if scripted else PUT_BACK
    return TAKE


def _next_move(record: ComponentRecord, done: MoveResult, boot_id: str) -> ComponentRecord:
    sequence = moves(record)
    if done.started:
        record = replace(record, started=done.started)
    if done.before is not None:
        record = replace(record, before=done.before)
    if done.stays:
        message = f"{record.message}; {done.stays}" if record.message else done.stays
        record = replace(record, reason=record.reason or STAYS, message=message)
    after = sequence[sequence.index(record.at) + 1 :] if record.at in sequence else ()
    if after:
        return replace(record, at=after[0])
    if record.how is WireChangeClass.REBOOT:
        return replace(record, at=ComponentMove.REBOOT, boot_id=boot_id)
    return _arrived(record)


def _standing(record: ComponentRecord, observation: ComponentObservation) -> Next:
    """Continue an interrupted change under a new permit, or give way to a new assignment."""
    if observation.known and observation.assigned is None:
        return _failed(record, "Interrupted", f"interrupted at {record.at}, assigned no more")
    if observation.known and observation.assigned is not None:
        assigned = (observation.assigned.revision, observation.assigned.attempt)
        if (record.revision, record.attempt) != assigned:
            return _anew(_stray(record), *assigned), ComponentAct.NONE
    return (replace(record, needs=None) if observation.permitted else record), ComponentAct.NONE


def _rebooted(record: ComponentRecord, observation: ComponentObservation) -> bool:
    known = record.at is ComponentMove.REBOOT and observation.boot_id and record.boot_id
    return bool(known and observation.boot_id != record.boot_id)


def _rebooting(record: ComponentRecord, observation: ComponentObservation) -> Next:
    if _rebooted(record, observation):
        return _arrived(record), ComponentAct.NONE
    if not record.boot_id:  # it was unreadable then: without proof, one more reboot
        return (
            replace(record, boot_id=observation.boot_id) if observation.boot_id else record
        ), ComponentAct.NONE
    return record, ComponentAct.REBOOT


def _arrived(record: ComponentRecord) -> ComponentRecord:
    record = replace(record, at=None, started={}, boot_id="", tries=0)
    match record.state:
        case ComponentApplyState.APPLYING:
            return _to(record, ComponentApplyState.VERIFYING)
        case ComponentApplyState.UNDOING:
            back = replace(record, target=None, stray=None)
            return replace(
                _to(back, ComponentApplyState.ROLLED_BACK),
                reason=record.reason,
                message=record.message,
            )
        case _:
            before = None if record.leaving else record.before
            gone = replace(
                record, applied=None, previous=None, target=None, stray=None, before=before
            )
            return _to(gone, ComponentApplyState.ABSENT, record.reason, record.message)


def _gives_up(record: ComponentRecord, why: str) -> Next:
    if record.state is ComponentApplyState.APPLYING and can_undo(record):
        return _undoing(record, "ApplyFailed", why), ComponentAct.NONE
    reason = {
        ComponentApplyState.APPLYING: "ApplyFailed",
        ComponentApplyState.UNDOING: "UndoFailed",
    }.get(record.state, "RemoveFailed")
    if record.state is ComponentApplyState.UNDOING:
        why = f"{why}; it was undone because: {record.message}"
    return _failed(record, reason, why)


def _stray(record: ComponentRecord) -> ComponentRecord:
    """Mark the target as stray: unknown parts of it are on the host."""
    stray = record.target or record.stray
    return replace(record, at=None, target=None, stray=stray, started={}, boot_id="", tries=0)


def _failed(record: ComponentRecord, reason: str, why: str) -> Next:
    return _to(_stray(record), ComponentApplyState.FAILED, reason, why), ComponentAct.NONE


def can_undo(record: ComponentRecord) -> bool:
    """Return whether an undo is possible: to what is applied, or to a host without the
    component.
    """
    if record.target is None or record.target.spec.undo.mode is WireUndoMode.NONE:
        return False
    if record.applied is None:
        return record.fresh
    return not same_form(record.applied.form, record.target.form)


def _undoing(record: ComponentRecord, reason: str, why: str) -> ComponentRecord:
    undoing = replace(record, tries=0, started={}, boot_id="")
    undoing = _to(undoing, ComponentApplyState.UNDOING, reason, why)
    return replace(undoing, at=moves(undoing)[0])


# -- after a change -------------------------------------------------------------------------------


def _verifying(record: ComponentRecord, observation: ComponentObservation) -> Next:
    target = record.target
    if target is None:  # unreachable
        return _to(record, ComponentApplyState.FAILED, "NothingToVerify"), ComponentAct.NONE
    if observation.health is ComponentHealth.GOOD:
        return _to(_settled(record, target), ComponentApplyState.HEALTHY), ComponentAct.NONE
    if not observation.overdue:
        return _unhealthy_yet(record, observation)
    why = observation.differs or f"not healthy within {target.spec.health_deadline}"
    if target.spec.undo.on_unhealthy and can_undo(record):
        return _undoing(record, "Unhealthy", why), ComponentAct.NONE
    if record.applied is not None and same_form(record.applied.form, target.form):
        return _to(
            _settled(record, target), ComponentApplyState.UNHEALTHY, "Unhealthy", why
        ), ComponentAct.NONE
    return _to(
        _settled(record, target), ComponentApplyState.FAILED, "Unhealthy", why
    ), ComponentAct.NONE


def _unhealthy_yet(record: ComponentRecord, observation: ComponentObservation) -> Next:
    """Report what is wrong before the deadline: a kubelet may wait for its certificate for long."""
    bad = observation.health is ComponentHealth.BAD
    status = (NOT_HEALTHY_YET, observation.differs) if bad else ("", "")
    if (record.reason, record.message) == status:
        return record, ComponentAct.NONE
    return _says(record, *status)


def _settled(record: ComponentRecord, target: StoredComponent) -> ComponentRecord:
    """Record `target` as applied. `previous` becomes the last version that differs from it."""
    old = record.applied
    previous = record.previous if old is None or same_form(old.form, target.form) else old
    return replace(record, applied=target, previous=previous, target=None, stray=None, at=None)


def _live(record: ComponentRecord, observation: ComponentObservation) -> Next:
    if record.state is ComponentApplyState.DRIFT_FIGHT:
        # Another writer sets other values: leave them until a new revision or attempt.
        return (
            record,
            ComponentAct.START
            if observation.off is Off.START and not observation.observe
            else ComponentAct.NONE,
        )
    if observation.observe:
        return _judged(record, observation)
    match observation.off:
        case Off.FIGHT:
            return _to(
                record, ComponentApplyState.DRIFT_FIGHT, "DriftFight", observation.differs
            ), ComponentAct.NONE
        case Off.NEEDS:
            return _drifted(record, observation)
        case Off.CORRECT:
            return record, ComponentAct.CORRECT
        case Off.WORN:
            return _to(
                record, ComponentApplyState.UNHEALTHY, "StartsUsedUp", observation.differs
            ), ComponentAct.NONE
        case Off.START:
            return record, ComponentAct.START
        case Off.NONE:
            return _judged(record, observation)


def _drifted(record: ComponentRecord, observation: ComponentObservation) -> Next:
    if record.applied is not None and observation.permitted and not observation.waits:
        return _applying(record, record.applied, observation.how, there=True), ComponentAct.NONE
    needs = _permit_class(observation)
    reason = "WaitingForOthers" if observation.permitted else "WaitingForPermit"
    drifted = _to(record, ComponentApplyState.DRIFTED, reason, observation.differs)
    return replace(drifted, needs=needs), ComponentAct.NONE


def _judged(record: ComponentRecord, observation: ComponentObservation) -> Next:
    if observation.off is not Off.NONE:
        return _to(
            record, ComponentApplyState.DRIFTED, "Observed", observation.differs
        ), ComponentAct.NONE
    match observation.health:
        case ComponentHealth.BAD:
            return _to(
                record, ComponentApplyState.UNHEALTHY, "Unhealthy", observation.differs
            ), ComponentAct.NONE
        case ComponentHealth.GOOD:
            return _to(record, ComponentApplyState.HEALTHY), ComponentAct.NONE
        case ComponentHealth.UNKNOWN:
            return record, ComponentAct.NONE


def _maintain(record: ComponentRecord, observation: ComponentObservation) -> Next:
    """Correct drift of what is applied while the record's state does not change."""
    if record.applied is not None and not observation.observe:
        if observation.off is Off.CORRECT:
            return record, ComponentAct.CORRECT
        if observation.off is Off.START:
            return record, ComponentAct.START
    return record, ComponentAct.NONE
