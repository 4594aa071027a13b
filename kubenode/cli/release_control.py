"""`kubenode release approve`, `pause`, `resume`, `rollback` and `abort`."""

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import Release
from kubenode.api.v1alpha1.release import ApprovalSubject, ReleasePhase, ReleaseState
from kubenode.cli.cluster import connected, require_crds
from kubenode.cli.exits import Refusal, say
from kubenode.cli.pause import caller
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Conflict, NotFound
from kubenode.runtime.kube.paths import custom

PLURAL = Release.resource.plural
OBSERVED_SECONDS, POLL_SECONDS = 60.0, 0.5
TRIES = 5


async def read_release(kube: Kube, name: str) -> Release:
    """Return the Release. Raises Refusal if there is none."""
    await require_crds(kube, {PLURAL})
    try:
        return await kube.get(custom(PLURAL, name), Release.from_server)
    except NotFound as error:
        known = "`kubenode release status` lists those that are"
        raise Refusal(f"there is no Release {name}; {known}") from error


async def change_state(name: str, state: str, kubeconfig: str | None, context: str | None) -> None:
    """Set spec.state. Raises Refusal if the release does not react to it any more."""
    async with connected(kubeconfig, context) as kube:
        release = await read_release(kube, name)
        if problem := find_objection(release, ReleaseState(state)):
            raise Refusal(f"Release {name}: {problem}")
        await _write_state(kube, name, state)
    say(f"Release {name}: state {state}; `kubenode release explain {name}` shows what follows")


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


async def _write_state(kube: Kube, name: str, state: str) -> None:
    await kube.patch(custom(PLURAL, name), {"spec": {"state": state}})


async def resume_release(name: str, kubeconfig: str | None, context: str | None) -> None:
    """Let a release go on. One that stopped by itself must observe a pause first."""
    async with connected(kubeconfig, context) as kube:
        release = await read_release(kube, name)
        if problem := find_objection(release, ReleaseState.RUN):
            raise Refusal(f"Release {name}: {problem}")
        if release.status.stop is not None:
            say(f"Release {name}: it stopped by itself: {release.status.stop.message}")
            await _write_state(kube, name, ReleaseState.PAUSE)
            await _wait_for_pause(kube, name)
        await _write_state(kube, name, ReleaseState.RUN)
    say(f"Release {name}: it goes on")


async def _wait_for_pause(kube: Kube, name: str) -> None:
    """Wait until Captain has observed the pause. Raises Refusal."""
    deadline = kube.clock.monotonic() + OBSERVED_SECONDS
    while (await read_release(kube, name)).status.stop is not None:
        if kube.clock.monotonic() >= deadline:
            raise Refusal(
                f"Captain has not observed the pause of {name} in {OBSERVED_SECONDS:.0f} s: does"
                " `kubenode run captain` run and lead? The release stays paused; then run"
                f" `kubenode release resume {name}` again"
            )
        await kube.clock.sleep(POLL_SECONDS)


async def approve_stage(
    name: str, stage: str, subject: str, kubeconfig: str | None, context: str | None
) -> None:
    """Add an approval by the user of the connection. Raises Refusal.

    subject: of ApprovalSubject.
    """
    async with connected(kubeconfig, context) as kube:
        by = await caller(kube)
        for _ in range(TRIES):
            release = await read_release(kube, name)
            try:
                changed = await add_approval(kube, release, ApprovalSubject(subject), stage, by)
            except Conflict:
                continue  # Captain writes the status often
            outcome = "is" if changed else "was already"
            approved = "Enforce in stage" if subject == ApprovalSubject.ENFORCE else "stage"
            say(f"Release {name}: {approved} {stage} {outcome} approved")
            return
    raise Refusal(f"Release {name} changes too often: try again")


async def add_approval(
    kube: Kube, release: Release, subject: ApprovalSubject, stage: str, by: str
) -> bool:
    """Store the approval. Return False if the stage has one. Raises Refusal and Conflict."""
    given, snapshot = release.spec.approvals, release.status.snapshot
    if snapshot is not None and all(each.name != stage for each in snapshot.stages):
        stages = ", ".join(each.name for each in snapshot.stages)
        raise Refusal(f"Release {release.metadata.name} has no stage {stage}; it has {stages}")
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
