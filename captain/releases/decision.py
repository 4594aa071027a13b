"""Decides what a release does next. Pure: release and world in, next status and writes out.

The caller stores the status before it writes to a cluster, and records the results of the writes.
A process that dies at any write goes on where it stopped: each write is idempotent, and everything
that a decision needs is in the status or is read from the clusters.

Guards, in order: ended, aborted, not started, deleted, paused, rolling back, stopped. Then it moves
forward.
"""

from dataclasses import replace

from pydantic import ValidationError

from captain.releases.content import compute_payload_digest
from captain.releases.forward import move_forward, retry_failed
from captain.releases.model import ReleaseDecision, ReleaseWorld, explain
from captain.releases.rollback import list_unrestored, move_back
from captain.releases.skips import apply_skips
from captain.releases.stages import (
    build_stages,
    find_problem,
    find_stage,
    take_snapshot,
    update_snapshot,
)
from captain.releases.summary import describe_rollback, describe_stage, set_release_conditions
from kubenode.api.problems import problems
from kubenode.api.v1alpha1 import KINDS, Release, ReleasePipeline
from kubenode.api.v1alpha1.release import (
    PayloadObject,
    ReleasePhase,
    ReleaseReason,
    ReleaseState,
    ReleaseStatus,
    ReleaseStop,
)
from kubenode.api.v1alpha1.releasepipeline import PipelineReason

MODELS = {kind.__name__: kind for kind in KINDS}
SHOWN = 3
"""Problems of an object that a message names."""


def decide(release: Release, world: ReleaseWorld) -> ReleaseDecision:
    """Return the next status, with conditions, and the clusters to write to."""
    decision = _decide(release, world)
    status = update_snapshot(decision.status, world.labels)
    status = _time_reason(release.status, status, world)
    return replace(decision, status=set_release_conditions(release, status, world.now))


def _time_reason(
    before: ReleaseStatus, status: ReleaseStatus, world: ReleaseWorld
) -> ReleaseStatus:
    same = (before.phase, before.stage, before.reason) == (
        status.phase,
        status.stage,
        status.reason,
    )
    since = before.reason_since if same else None
    return status.model_copy(update={"reason_since": since or world.now})


def _decide(release: Release, world: ReleaseWorld) -> ReleaseDecision:
    status, state = release.status, release.spec.state
    if status.phase is not None and status.phase.ended and not returns_after_end(release):
        return ReleaseDecision(status)
    if state is ReleaseState.ABORT:
        message = "nothing more is written; state Rollback restores what stood there before"
        return ReleaseDecision(_end(status, ReleasePhase.ABORTED, message, world))
    if status.snapshot is None:
        return ReleaseDecision(_begin(release, world))
    if awaits_decision(release):
        return ReleaseDecision(_hold_deleted(release))
    rolls_back = state is ReleaseState.ROLLBACK or status.rollback is not None
    if not rolls_back:
        status = apply_skips(release, status)
    if state is ReleaseState.PAUSE:
        return ReleaseDecision(_pause(status))
    if rolls_back:
        return _move_back(status, world)
    if problem := find_mismatch(release):
        stop = ReleaseStop(reason=ReleaseReason.DIGEST_MISMATCH, message=problem)
        status = status.model_copy(update={"stop": stop})
    if status.stop is not None:
        return ReleaseDecision(_stop(status, status.stop))
    return _move_forward(release, status, world)


def returns_after_end(release: Release) -> bool:
    """Return whether a release that has ended is to be rolled back."""
    wanted = release.spec.state is ReleaseState.ROLLBACK
    return wanted and release.status.phase is not ReleasePhase.ROLLED_BACK


def awaits_decision(release: Release) -> bool:
    """Return whether the release was deleted in progress, so that a person must decide about it."""
    returns = release.spec.state is ReleaseState.ROLLBACK or release.status.rollback is not None
    deleted = release.metadata.deletion_timestamp is not None
    return deleted and not returns and release.spec.state is not ReleaseState.ABORT


def _hold_deleted(release: Release) -> ReleaseStatus:
    clusters = [each for stage in release.status.stages for each in stage.clusters]
    changed, name = sum(bool(each.previous) for each in clusters), release.metadata.name
    message = (
        f"it was deleted after it began to change {changed} of {len(clusters)} clusters:"
        f" `kubenode release rollback {name}` restores them, `kubenode release abort {name}` leaves"
        " them as they are; then it is removed"
    )
    return explain(release.status, ReleasePhase.PAUSED, ReleaseReason.DELETED, message)


def _end(
    status: ReleaseStatus,
    phase: ReleasePhase,
    message: str,
    world: ReleaseWorld,
    reason: ReleaseReason | None = None,
) -> ReleaseStatus:
    """Return the status of an ended release. The reason is named as the phase by default."""
    ended = status.model_copy(update={"ended_at": world.now, "stop": None, "stage": ""})
    return explain(ended, phase, reason or ReleaseReason(phase.value), message)


def _pause(status: ReleaseStatus) -> ReleaseStatus:
    """Return the status of a release that a person paused. Failed clusters get another try."""
    changes = {"stop": None, "stages": retry_failed(status.stages)}
    message = "a person paused it; `kubenode release resume` lets it go on"
    return explain(
        status.model_copy(update=changes), ReleasePhase.PAUSED, ReleaseReason.USER, message
    )


def _stop(status: ReleaseStatus, stop: ReleaseStop) -> ReleaseStatus:
    return explain(status, ReleasePhase.PAUSED, stop.reason, stop.message)


# -- before the start -----------------------------------------------------------------------------


def _begin(release: Release, world: ReleaseWorld) -> ReleaseStatus:
    """Return the status with the snapshot, or with the reason why there is none yet."""
    status, state = release.status, release.spec.state
    if state is ReleaseState.ROLLBACK:
        return _end(status, ReleasePhase.ROLLED_BACK, "it changed no cluster", world)
    if fault := find_fault(release):
        reason, message = fault
        return _end(status, ReleasePhase.FAILED, message, world, reason)
    if state is ReleaseState.PAUSE:
        return _pause(status)
    if world.blocker:
        return explain(status, ReleasePhase.PENDING, ReleaseReason.PAYLOAD_CONFLICT, world.blocker)
    if world.pipeline is None:
        message = f"there is no ReleasePipeline {release.spec.pipeline_ref}: create it"
        return explain(status, ReleasePhase.PENDING, ReleaseReason.PIPELINE_MISSING, message)
    problem, message = find_problem(world.pipeline, world.labels)
    if problem is not PipelineReason.VALID:
        return explain(status, ReleasePhase.PENDING, ReleaseReason.PIPELINE_INVALID, message)
    return _take_snapshot(release, world.pipeline, world)


def _take_snapshot(
    release: Release, pipeline: ReleasePipeline, world: ReleaseWorld
) -> ReleaseStatus:
    started = release.status.model_copy(
        update={
            "started_at": world.now,
            "snapshot": take_snapshot(pipeline, release.spec.digest),
            "stages": build_stages(pipeline, world.labels),
        }
    )
    return describe_stage(release, started, world.now)


def find_fault(release: Release) -> tuple[ReleaseReason, str] | None:
    """Return why the release can never start, None if it can."""
    if mismatch := find_mismatch(release):
        return ReleaseReason.DIGEST_MISMATCH, mismatch
    for each in release.spec.payload:
        if text := find_invalid(each):
            return ReleaseReason.PAYLOAD_INVALID, f"{each.key}: {text}"[:2048]
    return None


def find_mismatch(release: Release) -> str:
    """Return how the payload differs from its digest, "" if it does not."""
    actual, snapshot = compute_payload_digest(release.spec.payload), release.status.snapshot
    expected = {release.spec.digest} | ({snapshot.digest} if snapshot is not None else set())
    if expected == {actual}:
        return ""
    return (
        f"the payload has digest {actual}, and not {', '.join(sorted(expected))}: it was changed;"
        " `kubenode release start` computes the digest of a file"
    )


def find_invalid(payload: PayloadObject) -> str:
    """Return the first problems of an object of the payload, "" if it is valid."""
    model = MODELS[payload.kind]
    try:
        model.from_user(payload.to_dict())
    except ValidationError as error:
        return "; ".join(problems(error, model)[:SHOWN])
    return ""


# -- after the start ------------------------------------------------------------------------------


def _move_forward(release: Release, status: ReleaseStatus, world: ReleaseWorld) -> ReleaseDecision:
    decision = move_forward(release, status, world)
    status = decision.status
    if status.rollback is not None:
        return ReleaseDecision(describe_rollback(status))
    if status.stop is not None:
        return ReleaseDecision(_stop(status, status.stop))
    if find_stage(status.stages) is None:
        return ReleaseDecision(_end(status, ReleasePhase.SUCCEEDED, "", world))
    return replace(decision, status=describe_stage(release, status, world.now))


def _move_back(status: ReleaseStatus, world: ReleaseWorld) -> ReleaseDecision:
    if world.blocker:  # it has ended, and its phase stays
        changes = {"reason": ReleaseReason.PAYLOAD_CONFLICT, "message": world.blocker}
        return ReleaseDecision(status.model_copy(update=changes))
    why = status.rollback or ReleaseReason.USER
    status = status.model_copy(update={"rollback": why, "stop": None, "ended_at": None})
    decision = move_back(status, world)
    if next(list_unrestored(decision.status), None) is None:
        ended = _end(decision.status, ReleasePhase.ROLLED_BACK, f"because of {why}", world)
        return ReleaseDecision(ended)
    return replace(decision, status=describe_rollback(decision.status))
