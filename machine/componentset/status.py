"""Convert between the status of a set and the state of its rollout. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from kubenode.api.conditions import ConditionUpdate, set_conditions
from kubenode.api.meta import Condition, ConditionStatus
from kubenode.api.readiness import set_readiness
from kubenode.api.rollouts import STICKY
from kubenode.api.v1alpha1 import MachineComponentSet
from kubenode.api.v1alpha1.machinecomponentset import (
    BatchStatus,
    ComponentSetConditionType,
    MachineComponentSetStatus,
    MemberCounts,
    RolloutPhase,
    SetRevision,
    VersionCount,
)
from machine.componentset.member import MemberState, RolloutMember
from machine.componentset.rollout import BatchState, ConditionMessage, RolloutPlan, RolloutState

Type = ComponentSetConditionType
VERSIONS = 32
"""Greatest number of versions to list, as the CRD allows."""


def remembered(status: MachineComponentSetStatus) -> RolloutState:
    """Return the state of the rollout that the status stores."""
    paused = _condition(status, Type.PAUSED)
    stopped = paused is not None and paused.status == "True" and paused.reason in STICKY
    return RolloutState(
        phase=status.phase,
        current=status.current_revision,
        update=status.update_revision,
        rejected=status.rejected_revision,
        batch=_batch(status.batch) if status.batch is not None else BatchState(),
        stop=ConditionMessage(paused.reason, paused.message)
        if paused is not None and stopped
        else None,
    )


def _batch(status: BatchStatus) -> BatchState:
    return BatchState(
        index=status.index,
        size=status.size,
        started_at=status.started_at,
        succeeded_at=status.succeeded_at,
        bake_until=status.bake_until,
        failed=tuple(status.failed),
        inconclusive=status.inconclusive,
        inspected_at=status.inspected_at,
        active_since=status.active_since,
        active_before=status.active_before,
        ended_at=status.ended_at,
    )


def status_after(
    set_: MachineComponentSet,
    rollout: RolloutState,
    plan: RolloutPlan,
    members: Iterable[RolloutMember],
    revisions: Sequence[SetRevision],
    now: datetime,
) -> MachineComponentSetStatus:
    """Return the status to write after a step."""
    counts, batch = plan.counts, rollout.batch
    return MachineComponentSetStatus(
        observed_generation=set_.metadata.generation,
        phase=rollout.phase,
        current_revision=rollout.current,
        update_revision=rollout.update,
        rejected_revision=rollout.rejected,
        counts=MemberCounts(
            machines=counts.machines,
            updated=counts.updated,
            healthy=counts.healthy,
            unavailable=counts.unavailable,
            held=counts.under_repair,
            excluded=counts.excluded,
        ),
        versions=_versions(members),
        batch=None if batch == BatchState() else _batch_status(batch),
        revisions=list(revisions),
        conditions=_conditions(set_, plan, now),
    )


def only_counts(before: MachineComponentSetStatus, after: MachineComponentSetStatus) -> bool:
    """Return whether the two statuses differ only in counts, versions and condition messages.

    Only the Paused condition counts with its message, from which a stop is restored.
    """
    return _pressing(before) == _pressing(after)


def _pressing(status: MachineComponentSetStatus) -> tuple[object, ...]:
    """Return the parts of a status whose change must be written at once."""
    plain = status.model_copy(update={"counts": None, "versions": [], "conditions": []})
    conditions = {c.type: (c.status, c.observed_generation) for c in status.conditions}
    return plain, conditions, _condition(status, Type.PAUSED)


def unsure(
    set_: MachineComponentSet, target: str, message: ConditionMessage, now: datetime
) -> MachineComponentSetStatus:
    """Return the status of a set that does not start work, because it is unknown which agents are
    alive.

    The status stays as it is if the set has nothing to do.

    target: the revision that the spec asks for, "" if it cannot be determined.
    message: the message of the condition Progressing.
    """
    status = set_.status
    rests = status.phase in (RolloutPhase.COMPLETED, RolloutPhase.IDLE)
    news = status.observed_generation != set_.metadata.generation
    if rests and not news and target in ("", status.update_revision):
        return status
    update = ConditionUpdate.of(False, str(message.reason), message.message)
    conditions = _with_conditions(set_, {Type.PROGRESSING: update}, now)
    return status.model_copy(update={"conditions": conditions})


def report_deletion(
    set_: MachineComponentSet, message: ConditionMessage | None, now: datetime
) -> MachineComponentSetStatus:
    """Return the status of a deleted set that is still there. Only the condition Degraded changes.

    message: why the component cannot be removed, None if nothing hinders that.
    """
    last = _condition(set_.status, Type.DEGRADED)
    if message is None and (last is None or last.status != ConditionStatus.TRUE):
        return set_.status
    reported = message or ConditionMessage("AsExpected")
    update = ConditionUpdate.of(message is not None, str(reported.reason), reported.message)
    conditions = _with_conditions(set_, {Type.DEGRADED: update}, now)
    return set_.status.model_copy(update={"conditions": conditions})


def _batch_status(batch: BatchState) -> BatchStatus:
    return BatchStatus(
        index=batch.index,
        size=batch.size,
        started_at=batch.started_at,
        succeeded_at=batch.succeeded_at,
        bake_until=batch.bake_until,
        failed=list(batch.failed),
        inconclusive=batch.inconclusive,
        inspected_at=batch.inspected_at,
        active_since=batch.active_since,
        active_before=batch.active_before,
        ended_at=batch.ended_at,
    )


def _versions(members: Iterable[RolloutMember]) -> list[VersionCount]:
    """Return the installed versions, most common first. Members that are well count as ready."""
    ready: Counter[str] = Counter()
    all_: Counter[str] = Counter()
    for member in members:
        if member.version:
            all_[member.version] += 1
            ready[member.version] += member.standing in (MemberState.SUCCEEDED, MemberState.AHEAD)
    common = sorted(all_, key=lambda version: (-all_[version], version))[:VERSIONS]
    return [VersionCount(version=v, ready=ready[v], unready=all_[v] - ready[v]) for v in common]


def _conditions(set_: MachineComponentSet, plan: RolloutPlan, now: datetime) -> list[Condition]:
    moves, message = plan.progressing
    wanted = {
        Type.PROGRESSING: (moves, message),
        Type.PAUSED: (plan.paused is not None, plan.paused or ConditionMessage("NotPaused")),
        Type.DEGRADED: (plan.degraded is not None, plan.degraded or ConditionMessage("AsExpected")),
    }
    updates = {
        type_: ConditionUpdate.of(holds, str(what.reason), what.message)
        for type_, (holds, what) in wanted.items()
    }
    return _with_conditions(set_, updates, now)


def _with_conditions(
    set_: MachineComponentSet, updates: Mapping[Type, ConditionUpdate], now: datetime
) -> list[Condition]:
    generation = set_.metadata.generation
    before = set_.status.conditions
    after = set_conditions(before, updates.items(), generation=generation, now=now)
    return set_readiness(MachineComponentSet.__name__, after, generation=generation, now=now)


def _condition(status: MachineComponentSetStatus, type_: Type) -> Condition | None:
    return next((c for c in status.conditions if c.type == type_), None)
