"""Approve, pause, resume, roll back and abort releases, for the command line and the dashboard."""

from collections.abc import Callable

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import Release
from kubenode.api.v1alpha1.release import ApprovalSubject, ReleasePhase, ReleaseState, ReleaseStop
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Conflict
from kubenode.runtime.kube.paths import custom

PLURAL = Release.resource.plural
POLL_SECONDS = 0.5
TRIES = 5


class ReleaseObjection(Exception):
    """An act that would not do what the person means. Nothing was written. The message says why."""


class StopNotObserved(Exception):
    """Captain has not observed a pause in time. The release stays paused."""


async def read_release(kube: Kube, name: str) -> Release:
    """Return the Release. Raises KubeError."""
    return await kube.get(custom(PLURAL, name), Release.from_server)


async def change_state(kube: Kube, name: str, state: ReleaseState) -> None:
    """Set spec.state. Raises ReleaseObjection and KubeError."""
    _require_effect(await read_release(kube, name), state)
    await _write_state(kube, name, state)


def find_objection(release: Release, state: ReleaseState) -> str:
    """Return why a state would change nothing, "" if it would."""
    phase, forward = release.status.phase, state in (ReleaseState.RUN, ReleaseState.PAUSE)
    if phase is None or not phase.ended:
        deleted = forward and release.metadata.deletion_timestamp is not None
        return "it is deleted: roll it back or abort it" if deleted else ""
    if phase is ReleasePhase.ROLLED_BACK:
        return "it is rolled back, and does not run again: start another one"
    if state is ReleaseState.ROLLBACK:
        return ""
    return f"it has ended, {phase}: only `kubenode release rollback` acts on it now"


def _require_effect(release: Release, state: ReleaseState) -> None:
    if problem := find_objection(release, state):
        raise ReleaseObjection(problem)


async def _write_state(kube: Kube, name: str, state: ReleaseState) -> None:
    await kube.patch(custom(PLURAL, name), {"spec": {"state": state}})


async def resume_release(
    kube: Kube,
    name: str,
    limit_seconds: float,
    on_stop: Callable[[ReleaseStop], None] = lambda stop: None,
) -> None:
    """Let a release go on. One that stopped by itself must observe a pause first.

    limit_seconds: time for Captain to observe the pause.
    on_stop: called with the stop.
    Raises ReleaseObjection, StopNotObserved and KubeError.
    """
    release = await read_release(kube, name)
    _require_effect(release, ReleaseState.RUN)
    if release.status.stop is not None:
        on_stop(release.status.stop)
        await _write_state(kube, name, ReleaseState.PAUSE)
        await _wait_for_pause(kube, name, limit_seconds)
    await _write_state(kube, name, ReleaseState.RUN)


async def _wait_for_pause(kube: Kube, name: str, limit_seconds: float) -> None:
    deadline = kube.clock.monotonic() + limit_seconds
    while (await read_release(kube, name)).status.stop is not None:
        if kube.clock.monotonic() >= deadline:
            raise StopNotObserved
        await kube.clock.sleep(POLL_SECONDS)


async def approve_stage(
    kube: Kube,
    name: str,
    stage: str,
    by: str,
    subject: ApprovalSubject = ApprovalSubject.START,
) -> bool:
    """Add an approval, and return False if the stage has one of this subject.

    by: the user of the connection, which admission checks.
    Raises ReleaseObjection and KubeError.
    """
    for _ in range(TRIES):
        release = await read_release(kube, name)
        try:
            return await _approve(kube, release, stage, by, subject)
        except Conflict:
            continue  # Captain writes the status often
    raise ReleaseObjection("it changes too often: try again")


async def _approve(
    kube: Kube, release: Release, stage: str, by: str, subject: ApprovalSubject
) -> bool:
    given, snapshot = release.spec.approvals, release.status.snapshot
    if snapshot is not None and all(each.name != stage for each in snapshot.stages):
        stages = ", ".join(each.name for each in snapshot.stages)
        raise ReleaseObjection(f"it has no stage {stage}; it has {stages}")
    if any(each.stage == stage and each.subject is subject for each in given):
        return False
    entry = {
        "stage": stage,
        "subject": subject.value,
        "by": by,
        "at": format_time(kube.clock.now()),
    }
    body = {
        "metadata": {"resourceVersion": release.metadata.resource_version},
        "spec": {"approvals": [*(each.to_dict() for each in given), entry]},
    }
    await kube.patch(custom(PLURAL, release.metadata.name), body)
    return True
