"""`kubenode component pause`, `resume` and `freeze`: stop the rollout of a set, or let it go on."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from kubenode.cli.cluster import connected, require_crds
from kubenode.cli.exits import Refusal, say
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Forbidden, NotFound
from kubenode.runtime.rollout_control import PLURAL, PauseNotObserved, resume_set, write_spec

NOTED_SECONDS = 150.0
"""Time for the operator to observe a pause. It usually takes a second; an operator that has just
started first learns which agents are alive.
"""
TELL_SECONDS, AGAIN_SECONDS = 3.0, 15.0
WAITS_FOR = (
    f"waits until the Machine operator has seen the pause, {NOTED_SECONDS:.0f} s at most; one that"
    " has just started learns first which agents live"
)


async def hold_command(
    name: str, spec: Mapping[str, bool], kubeconfig: str | None, context: str | None
) -> None:
    async with connected(kubeconfig, context) as kube:
        await require_crds(kube, {PLURAL})
        with refusals(name):
            await write_spec(kube, name, spec)
    _say(name, ", ".join(f"{key} {str(value).lower()}" for key, value in spec.items()))


async def resume_command(name: str, kubeconfig: str | None, context: str | None) -> None:
    """Let a set go on that a person or the set itself has stopped; see resume_set."""
    async with connected(kubeconfig, context) as kube:
        await require_crds(kube, {PLURAL})
        with refusals(name):
            _say(name, await resume(kube, name))


async def resume(kube: Kube, name: str) -> str:
    """Resume the set and report the wait. Return what follows. Raises Refusal."""
    progress = WaitProgress(name)
    try:
        return await resume_set(
            kube,
            name,
            NOTED_SECONDS,
            lambda stop: _say(name, f"it stopped by itself, {stop.reason}: {stop.message}"),
            progress.report,
        )
    except PauseNotObserved:
        raise Refusal(
            f"the Machine operator took no note of {name} in {NOTED_SECONDS:.0f} s: does"
            " `kubenode run machine` run and lead, and what do its logs say? The set stays"
            f" paused; then say `kubenode component resume {name}` again"
        ) from None


@dataclass(slots=True)
class WaitProgress:
    """Reports a wait for the operator now and then."""

    name: str
    next_report: float = TELL_SECONDS

    def report(self, waited: float) -> None:
        if waited < self.next_report:
            return
        first = self.next_report == TELL_SECONDS
        text = f"{WAITS_FOR}, {waited:.0f} s" if first else f"still waits, {waited:.0f} s"
        _say(self.name, text)
        self.next_report += AGAIN_SECONDS


def _say(name: str, text: str) -> None:
    say(f"MachineComponentSet {name}: {text}")


@contextmanager
def refusals(name: str) -> Iterator[None]:
    """Turn errors of the API server into a Refusal that says what to do."""
    try:
        yield
    except NotFound as error:
        known = "`kubenode component sets` lists those that are"
        raise Refusal(f"there is no MachineComponentSet {name}; {known}") from error
    except Forbidden as error:
        raise Refusal(
            f"a right is missing: {error.message}; charts/kubenode/people.yaml has the roles"
        ) from error
