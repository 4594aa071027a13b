"""Acts of people: pauses in policies, and decisions on jobs. Each is written as the person.

After a conflict the object is read again. If the change affects what the person decided about, the
person is told who did what; otherwise the write is repeated.
"""

import logging
from collections import deque
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from defender.dashboard.views.pauses import OperatorAction
from defender.dashboard.views.rollout import RolloutAction
from defender.decision.pauses import CLUSTER, PausedScope, PauseOutcome
from defender.server.pause_edits import PauseEdit, pause, resume
from kubenode.api.decisions import MOST_DECISIONS, Decision, phase_of, unheard
from kubenode.api.meta import format_time
from kubenode.api.v1alpha1.defenderpolicy import Pause
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import (
    Conflict,
    KubeError,
)
from kubenode.runtime.rollout_control import (
    PauseNotObserved,
    UndoChanged,
    resume_set,
    undo_rollout,
    write_spec,
)
from kubenode.runtime.site.outcomes import ActionOutcome, describe_failure
from kubenode.runtime.site.people import Person, Writers

audit = logging.getLogger("defender.dashboard.audit")

MOST_ACTIONS = 50
TRIES = 5
OBSERVED_SECONDS = 10.0
"""Time for the Machine operator to observe a pause while a person waits for the page."""
JOBS = "remedyoperationjobs"
OUTCOME_TEXTS = {
    "Approve": ("Approved", "it asks for a permit and acts within the limits"),
    "Deny": ("Denied", "it is cancelled, and what it holds is given back"),
    "Next": ("Sent on", "it goes on with the next rung, within the limits"),
    "Retry": ("Sent back", "it tries the same rung again, within the limits"),
    "Close": ("Closed", "what it holds is given back, and it ends as Failed"),
}
"""By decision, what was done and what follows."""


class OperatorActions:
    """Carries out the acts, and keeps the last KEPT of them for the page that shows them."""

    def __init__(self, writers: Writers, clock: Clock) -> None:
        self._writers, self._clock = writers, clock
        self._past: deque[OperatorAction] = deque(maxlen=MOST_ACTIONS)
        self._count = 0

    def past(self) -> Iterator[OperatorAction]:
        """Return the acts, the latest first."""
        return reversed(self._past)

    async def pause(self, who: Person, wanted: Pause, scope: PausedScope) -> ActionOutcome:
        async def write(kube: Kube) -> ActionOutcome:
            return describe_pause(scope, await pause(kube, wanted, self._clock.now()))

        end = f" until {format_time(wanted.until)}" if wanted.until else ""
        sharp = ", taking permits back" if wanted.now else ""
        return await self._do(who, f"pause {scope}{end}{sharp}", wanted.why, write)

    async def resume(self, who: Person, scope: PausedScope) -> ActionOutcome:
        async def write(kube: Kube) -> ActionOutcome:
            return describe_resume(scope, await resume(kube, scope, self._clock.now()))

        return await self._do(who, f"resume {scope}", "", write)

    async def decide(
        self, who: Person, job: str, decision: Decision, note: str, decision_count: int
    ) -> ActionOutcome:
        """Write a decision on a job.

        decision_count: number of decisions of the job when the person looked at it.
        """

        async def write(kube: Kube) -> ActionOutcome:
            return await decide(
                kube, job, decision, who.name, note, decision_count, self._clock.now()
            )

        return await self._do(who, f"{decision.lower()} job {job}", note, write)

    async def roll(
        self, who: Person, name: str, action: RolloutAction, revision: str
    ) -> ActionOutcome:
        """Pause, resume, retry or undo the rollout of a set.

        revision: the revision that the page named for an undo.
        """

        async def write(kube: Kube) -> ActionOutcome:
            return await roll(kube, name, action, revision)

        return await self._do(who, f"{action.lower()} rollout {name}", revision, write)

    async def _do(self, who: Person, what: str, note: str, write: Any) -> ActionOutcome:
        try:
            async with self._writers.of(who) as kube:
                done: ActionOutcome = await write(kube)
        except KubeError as error:
            done = ActionOutcome(describe_failure(error, who), good=False)
        now = self._clock.now()
        extra = {"who": who.name, "via": who.via.value, "what": what, "note": note}
        audit.info("act of a person", extra={**extra, "done": done.good, "result": done.text})
        self._count += 1
        self._past.append(OperatorAction(str(self._count), now, who.name, what, done.text))
        return done


async def roll(kube: Kube, name: str, action: RolloutAction, revision: str) -> ActionOutcome:
    """Carry out the action. Raises KubeError."""
    try:
        match action:
            case RolloutAction.PAUSE:
                await write_spec(kube, name, {"paused": True})
                text = f"Paused {name}: no batch starts until somebody resumes it."
            case RolloutAction.RESUME | RolloutAction.RETRY:
                text = f"Set {name}: {await resume_set(kube, name, OBSERVED_SECONDS)}."
            case RolloutAction.UNDO:
                target = await undo_rollout(kube, name, revision)
                text = f"Undone: {name} asks for revision {target.name} ({target.component}) again."
    except PauseNotObserved:
        text = (
            f"{name} is paused, and the Machine operator has not observed that yet."
            f" Press Retry again in a minute; if that does not help, see whether it runs."
        )
        return ActionOutcome(text, good=False)
    except UndoChanged:
        text = f"Set {name} has changed meanwhile. Nothing was written; look at the rollout again."
        return ActionOutcome(text, good=False)
    return ActionOutcome(text)


async def decide(
    kube: Kube,
    name: str,
    decision: Decision,
    by: str,
    note: str,
    decision_count: int,
    now: datetime,
) -> ActionOutcome:
    """Append a decision to a job that waits. Raises KubeError.

    by: name of the person, used if no webhook sets it from the credentials of the write.
    """
    path = paths.custom(JOBS, name)
    for _ in range(TRIES):
        job = await kube.get(path)
        if problem := cannot_decide(job, decision, decision_count):
            return ActionOutcome(problem, good=False)
        ours = {"decision": decision, "by": by[:256], "at": format_time(now), "note": note[:1024]}
        body = {
            "metadata": {"resourceVersion": job["metadata"]["resourceVersion"]},
            "spec": {"approvals": [*decisions(job), ours]},
        }
        try:
            await kube.patch(path, body)
        except Conflict:
            continue  # its controller writes often; read the job again and check it
        done, then = OUTCOME_TEXTS[decision]
        return ActionOutcome(f"{done} {name}: {then}.")
    return ActionOutcome(f"Job {name} is being written all the time: try again.", good=False)


def decisions(job: dict[str, Any]) -> list[dict[str, Any]]:
    return list(job["spec"].get("approvals") or [])


def cannot_decide(job: dict[str, Any], decision: Decision, decision_count: int) -> str:
    """Return why a decision would not be what the person meant, "" if it is. Pure."""
    name, made = job["metadata"]["name"], decisions(job)
    if len(made) > decision_count:
        last = made[-1]
        who, word = last.get("by") or "somebody", last.get("decision", "decided").lower()
        return (
            f"Somebody was faster: {who} said {word} meanwhile. Nothing was written;"
            " look at the job again."
        )
    if len(made) >= MOST_DECISIONS:
        return f"Job {name} has {MOST_DECISIONS} decisions, and more it cannot have."
    if unheard(job, decision):
        phase = phase_of(job)
        return f"Job {name} does not wait for this any more: it is {phase}. Nothing was written."
    return ""


def describe_pause(scope: PausedScope, written: list[PauseEdit]) -> ActionOutcome:
    problems = [f"policy {w.policy}: {w.problem}" for w in written if w.edit is None]
    if problems:
        return ActionOutcome(f"Not paused everywhere. {'; '.join(problems)}", good=False)
    outcomes = {w.edit.outcome for w in written if w.edit is not None}
    if not outcomes - {PauseOutcome.UNCHANGED}:
        return ActionOutcome(
            f"{scope} is paused for at least as long already: nothing was changed."
        )
    word = "longer now" if outcomes <= {PauseOutcome.PROLONGED, PauseOutcome.UNCHANGED} else "now"
    return ActionOutcome(
        f"{scope} is paused {word}: nothing new is disrupted there until it is resumed."
    )


def describe_resume(scope: PausedScope, written: list[PauseEdit]) -> ActionOutcome:
    problems = [f"policy {w.policy}: {w.problem}" for w in written if w.edit is None]
    if problems:
        return ActionOutcome(f"Not resumed everywhere. {'; '.join(problems)}", good=False)
    if not any(w.edit is not None and w.edit.outcome is PauseOutcome.RESUMED for w in written):
        return ActionOutcome(
            f"{scope} was not paused any more: somebody else has resumed it, or it ended."
        )
    remark = "" if scope == CLUSTER else " What a wider pause stops stays stopped."
    return ActionOutcome(f"{scope} is resumed: what waited asks again, within the limits.{remark}")
