"""What people do with releases. Each act is written as the person, by the code of the command."""

import logging

from captain.site.views.actions import APPROVALS, STATES, ReleaseAction
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import KubeError
from kubenode.runtime.release_control import (
    ReleaseObjection,
    StopNotObserved,
    approve_stage,
    change_state,
    resume_release,
)
from kubenode.runtime.site.outcomes import ActionOutcome, describe_failure
from kubenode.runtime.site.people import Person, Writers

audit = logging.getLogger("captain.site.audit")
OBSERVED_SECONDS = 10.0
"""Time for Captain's leader to observe a pause while a person waits for the page."""
OUTCOMES = {
    ReleaseAction.PAUSE: "is paused. Captain writes nothing more until a person resumes it.",
    ReleaseAction.RESUME: "goes on.",
    ReleaseAction.ROLLBACK: "is being rolled back. Each cluster gets back what stood there before.",
    ReleaseAction.ABORT: "is aborted. Captain writes nothing more, and restores nothing.",
}
"""What follows `Release NAME` in the message of success."""
NOT_OBSERVED = (
    "Release {name} is paused, and Captain has not observed that yet. Press Resume again in a"
    " minute. If that does not help, check whether `kubenode run captain` runs and leads."
)


class ReleaseActions:
    """Carries out and logs the acts of people."""

    def __init__(self, writers: Writers, clock: Clock) -> None:
        self._writers, self._clock = writers, clock

    async def act(
        self, who: Person, name: str, action: ReleaseAction, stage: str = ""
    ) -> ActionOutcome:
        """Approve `stage` of a release, or change its state."""
        try:
            async with self._writers.of(who) as kube:
                done = await carry_out(kube, who, name, action, stage)
        except KubeError as error:
            done = ActionOutcome(describe_failure(error, who), good=False)
        act = " ".join(filter(None, (action.verb, f"release {name}", stage and f"stage {stage}")))
        extra = {"who": who.name, "via": who.via.value, "what": act}
        audit.info("act of a person", extra={**extra, "done": done.good, "result": done.text})
        return done


async def carry_out(
    kube: Kube, who: Person, name: str, action: ReleaseAction, stage: str
) -> ActionOutcome:
    """Carry out the action with the credentials of `kube`. Raises KubeError."""
    try:
        if action in APPROVALS:
            new = await approve_stage(kube, name, stage, who.name, APPROVALS[action])
            return ActionOutcome(describe_approval(name, action, stage, new=new))
        if action is ReleaseAction.RESUME:
            await resume_release(kube, name, OBSERVED_SECONDS)
        else:
            await change_state(kube, name, STATES[action])
    except ReleaseObjection as error:
        return ActionOutcome(f"Release {name} is not changed: {error}.", good=False)
    except StopNotObserved:
        return ActionOutcome(NOT_OBSERVED.format(name=name), good=False)
    return ActionOutcome(f"Release {name} {OUTCOMES[action]}")


def describe_approval(name: str, action: ReleaseAction, stage: str, *, new: bool) -> str:
    subject = f"Stage {stage}" if action is ReleaseAction.APPROVE else f"Enforce in stage {stage}"
    return f"{subject} of release {name} {'is' if new else 'was already'} approved."
