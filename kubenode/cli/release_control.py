"""`kubenode release approve`, `pause`, `resume`, `rollback` and `abort`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kubenode.api.v1alpha1 import Release
from kubenode.api.v1alpha1.release import ApprovalSubject, ReleaseState, ReleaseStop
from kubenode.cli.cluster import connected, require_crds
from kubenode.cli.exits import Refusal, say
from kubenode.cli.pause import caller
from kubenode.runtime import release_control as control
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import NotFound
from kubenode.runtime.release_control import PLURAL, ReleaseObjection, StopNotObserved

OBSERVED_SECONDS = 60.0


async def read_release(kube: Kube, name: str) -> Release:
    """Return the Release. Raises Refusal if there is none."""
    await require_crds(kube, {PLURAL})
    try:
        return await control.read_release(kube, name)
    except NotFound as error:
        known = "`kubenode release status` lists those that are"
        raise Refusal(f"there is no Release {name}; {known}") from error


@asynccontextmanager
async def _controlling(
    name: str, kubeconfig: str | None, context: str | None
) -> AsyncIterator[Kube]:
    """Yield the client for a Release that exists. Raises Refusal, also for an objection."""
    async with connected(kubeconfig, context) as kube:
        await read_release(kube, name)
        try:
            yield kube
        except ReleaseObjection as error:
            raise Refusal(f"Release {name}: {error}") from error


async def change_state(name: str, state: str, kubeconfig: str | None, context: str | None) -> None:
    """Set spec.state. Raises Refusal if the release does not react to it any more."""
    async with _controlling(name, kubeconfig, context) as kube:
        await control.change_state(kube, name, ReleaseState(state))
    say(f"Release {name}: state {state}; `kubenode release explain {name}` shows what follows")


async def resume_release(name: str, kubeconfig: str | None, context: str | None) -> None:
    """Let a release go on. Raises Refusal."""

    def report(stop: ReleaseStop) -> None:
        say(f"Release {name}: it stopped by itself: {stop.message}")

    async with _controlling(name, kubeconfig, context) as kube:
        try:
            await control.resume_release(kube, name, OBSERVED_SECONDS, report)
        except StopNotObserved as error:
            raise Refusal(
                f"Captain has not observed the pause of {name} in {OBSERVED_SECONDS:.0f} s: does"
                " `kubenode run captain` run and lead? The release stays paused; then run"
                f" `kubenode release resume {name}` again"
            ) from error
    say(f"Release {name}: it goes on")


async def approve_stage(
    name: str, stage: str, subject: str, kubeconfig: str | None, context: str | None
) -> None:
    """Add an approval by the user of the connection. Raises Refusal.

    subject: of ApprovalSubject.
    """
    async with _controlling(name, kubeconfig, context) as kube:
        wanted = ApprovalSubject(subject)
        changed = await control.approve_stage(kube, name, stage, await caller(kube), wanted)
    approved = "Enforce in stage" if subject == ApprovalSubject.ENFORCE else "stage"
    say(f"Release {name}: {approved} {stage} {'is' if changed else 'was already'} approved")
