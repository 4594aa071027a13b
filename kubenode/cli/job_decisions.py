"""`kubenode approve|deny` and `kubenode job next|retry|close|cancel`: a person's decision on a job.

Admission sets the author of a decision; without the webhook it is the user name that the API server
reports for the caller. A decision is written only if nobody else has decided since the job was
read.
"""

from typing import Any

import typer

from kubenode.api.decisions import CANCELLED_BY, MOST_DECISIONS, Decision, hears, phase_of, unheard
from kubenode.api.meta import format_time
from kubenode.api.v1alpha1.remedyoperationjob import JobPhase
from kubenode.cli.cluster import connected, require_crds
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.job_access import PLURAL, Unsigned, read_job, refusals
from kubenode.cli.pause import caller
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Conflict

TRIES = 8
LONGEST_NOTE = 1024
OUTCOMES = {
    "Approve": ("approved", "it asks for a permit and acts within the limits"),
    "Deny": ("denied", "it is cancelled, and what it holds is given back"),
    "Next": ("sent to the next rung", "it asks for a permit and acts within the limits"),
    "Retry": ("sent to the same rung again", "it asks for a permit and acts within the limits"),
    "Close": ("closed", "what it holds is given back, and it ends as Failed"),
}
INSTEAD: dict[Decision, str] = {
    "Approve": "kubenode approve",
    "Deny": "kubenode deny",
    "Next": "kubenode job next",
    "Retry": "kubenode job retry",
    "Close": "kubenode job close",
}


async def say(
    kubeconfig: str | None,
    context: str | None,
    name: str,
    decision: Decision,
    note: str,
    rung: str = "",
) -> Exit:
    """Write a decision and print the outcome. Raises Refusal.

    rung: the name or number of a rung, "" for none.
    """
    if len(note) > LONGEST_NOTE:
        raise Refusal(f"--note: longer than {LONGEST_NOTE} characters: cut it", Exit.USAGE)
    async with connected(kubeconfig, context) as kube:
        await require_crds(kube)
        by = await caller(kube)
        job = await _say(kube, name, decision, note, rung, by)
    word = job["spec"]["approvals"][-1]
    done, then = OUTCOMES[decision]
    typer.echo(f"job {name} is {done}, by {word.get('by') or 'nobody'}: {then}")
    return Exit.FINE


async def _say(
    kube: Kube, name: str, decision: Decision, note: str, rung: str, by: str
) -> dict[str, Any]:
    """Add the decision to the job, and return the stored job."""
    known_count: int | None = None
    for _ in range(TRIES):
        job = await read_job(kube, name)
        approvals = list(job["spec"].get("approvals") or ())
        if known_count is not None and len(approvals) > known_count:
            raise Refusal(_somebody_was_faster(name, approvals[-1]))
        known_count = len(approvals)
        word: dict[str, Any] = {"decision": decision, "by": by[:256], "note": note}
        if rung:
            word["rung"] = rung_number(job, rung)
        _require(job, decision, word.get("rung"))
        word["at"] = format_time(kube.clock.now())
        body = {
            "metadata": {"resourceVersion": job["metadata"]["resourceVersion"]},
            "spec": {"approvals": [*approvals, word]},
        }
        try:
            with refusals("patch", name):
                stored: dict[str, Any] = await kube.patch(paths.custom(PLURAL, name), body)
                return stored
        except Refusal as refusal:
            if not isinstance(refusal.__cause__, Conflict):
                raise
            # The controller of the job writes often: read the job and check again.
    raise Refusal(f"job {name} is being written all the time: try again")


def _somebody_was_faster(name: str, word: dict[str, Any]) -> str:
    who = word.get("by") or "somebody"
    return f"{who} said {word.get('decision')} to job {name} meanwhile: nothing was written"


def _require(job: dict[str, Any], decision: Decision, rung: int | None) -> None:
    name = job["metadata"]["name"]
    if why := unheard(job, decision, rung):
        accepted = hears(job)
        could = " or ".join(f"`{INSTEAD[word]} {name}`" for word in accepted)
        if not accepted and not phase_of(job).closed:
            could = f"`kubenode job cancel {name}`"
        hint = f"; what it would hear: {could}" if could else ""
        raise Refusal(f"job {name}: {why}{hint}; `kubenode explain job {name}` says more")
    if len(job["spec"].get("approvals") or ()) >= MOST_DECISIONS:
        text = f"job {name} has heard {MOST_DECISIONS} words, and more it cannot hold"
        raise Refusal(f"{text}: `kubenode job cancel {name}` ends it")


def rung_number(job: dict[str, Any], text: str) -> int:
    """Return the number of a rung by its name or number. Raises Refusal."""
    names = [str(rung.get("name", "")) for rung in job["spec"]["ladder"]]
    if text in names:
        return names.index(text)
    if text.isdecimal() and int(text) < len(names):
        return int(text)
    there = ", ".join(f"{name} ({n})" for n, name in enumerate(names))
    raise Refusal(f"--rung: {text!r} is no rung of this job; there are: {there}", Exit.USAGE)


async def cancel(kubeconfig: str | None, context: str | None, name: str) -> Exit:
    """Cancel a job and print the outcome. Raises Refusal."""
    async with connected(kubeconfig, context) as kube:
        await require_crds(kube)
        job = await read_job(kube, name)
        phase = phase_of(job)
        if phase.closed:
            raise Refusal(f"job {name} is over already: {phase}")
        if job["spec"].get("cancel"):
            typer.echo(f"job {name} is being cancelled already")
            return Exit.FINE
        by, noted = await caller(kube), True
        try:
            await _cancel(kube, name, {"annotations": {CANCELLED_BY: by[:256]}})
        except Unsigned:
            # Cancelling must always be possible, if need be without the author's name.
            await _cancel(kube, name, {})
            noted = False
    waits = "; what was asked of the host is awaited first" if phase is JobPhase.RUNNING else ""
    typer.echo(f"job {name} is cancelled: what it holds is given back{waits}")
    if not noted:
        typer.echo("who cancelled it is not noted: the webhook that does so did not answer")
    return Exit.FINE


async def _cancel(kube: Kube, name: str, metadata: dict[str, Any]) -> None:
    body: dict[str, Any] = {"spec": {"cancel": True}}
    if metadata:
        body["metadata"] = metadata
    with refusals("patch", name):
        await kube.patch(paths.custom(PLURAL, name), body)
