"""Explains a hold: its meaning, what would have to change, and what a person can do. Pure."""

from collections.abc import Sequence

from defender.dashboard.views.holds import HOLDS
from kubenode.api.decisions import Decision
from kubenode.api.v1alpha1 import HoldReason, Reason, RemedyOperationJob
from kubenode.api.v1alpha1.remedyoperationjob import JobPhase
from kubenode.cli.defender_why import REMEDIES

_UNTIL = {
    HoldReason.DEFENDER_UNREACHABLE: "Kube Defender must answer: is it up, and is there a way to"
    " it? It is asked again by itself",
    HoldReason.ENGINES_DISAGREE: "both rule engines must say the same: look at the operator's log,"
    " and report it",
    HoldReason.GROUP_WAIT: "it goes on by itself after the rule's groupWait",
    HoldReason.STARTUP_GRACE: "it begins by itself once the rule's startupGrace is over",
    HoldReason.COOLDOWN: "it goes on by itself after the rule's cooldown",
    HoldReason.GUARD_TRUE: "what the guard names must end; or change `unless` of the rule",
    HoldReason.FAULT_UNKNOWN: "the detector must report again: `kubenode explain node {node}` says"
    " what is unknown",
    HoldReason.PDB_BLOCKED: "the budget must allow an eviction: more ready pods, or another budget",
    HoldReason.PERMIT_LOST: "Kube Defender must grant a permit again; it is asked by itself",
    HoldReason.PROVIDER_UNREACHABLE: "whoever runs the machine must answer: credentials, network,"
    " its own state",
    HoldReason.ACT_REFUSED: "what the message names must be so again right before the act: the"
    " permit, the target, its boot, the API server's answer, no freeze; it is looked at by itself",
    HoldReason.RECEIVER_UNREACHABLE: "the receiver must answer: its address, credentials, its own"
    " state",
}


def means(reason: str) -> str:
    """Return the meaning of a reason, "" for an unknown one."""
    return HOLDS.get(reason, "")


def holds_until(reason: str, scope: str, node: str) -> str:
    """Return what would have to change so that the hold ends."""
    if reason in {str(each) for each in HoldReason}:
        return _UNTIL.get(HoldReason(reason), "it is tried again by itself").format(node=node)
    if reason in {str(each) for each in Reason}:
        return REMEDIES.get(Reason(reason), "ask again later").format(scope=scope or "the cluster")
    return "it is tried again by itself"


def may_do(job: RemedyOperationJob, accepted: Sequence[Decision]) -> list[tuple[str, str]]:
    """List (command, effect) for a person, the mildest first.

    For a closed job the commands look for the cause or start another job; after a success there are
    none.

    accepted: decisions that the job accepts now.
    """
    name, phase = job.metadata.name, job.status.phase
    if phase.closed:
        return _afterwards(job)
    commands = [pair for word in accepted for pair in _say(job, word)]
    if not job.spec.cancel:
        commands.append(
            (f"kubenode job cancel {name}", "end it: what is ours on the node is undone")
        )
    if phase is JobPhase.AWAITING_PERMIT:
        commands.append(
            (f"kubenode defender explain {job.spec.node_name}", "every limit, and its use")
        )
    return commands


def _say(job: RemedyOperationJob, word: Decision) -> list[tuple[str, str]]:
    name, ladder, at = job.metadata.name, job.spec.ladder, job.status.rung
    here = ladder[at].name if at < len(ladder) else str(at)
    match word:
        case "Approve":
            return [(f"kubenode approve {name}", f"let it go on with rung {here}")]
        case "Deny":
            return [(f"kubenode deny {name}", "cancel it; no other follows while the fault lasts")]
        case "Retry":
            return [(f"kubenode job retry {name}", f"try rung {here} again, from its first step")]
        case "Close":
            return [(f"kubenode job close {name}", "give up: it ends as Failed, ours is undone")]
        case "Next" if at + 1 < len(ladder):
            return [(f"kubenode job next {name}", f"go on with rung {ladder[at + 1].name}")]
        case _:
            text = "go on with a rung that you name; none follows this one"
            return [(f"kubenode job next {name} --rung RUNG", text)]


def _afterwards(job: RemedyOperationJob) -> list[tuple[str, str]]:
    node = job.spec.node_name
    if job.status.phase is JobPhase.SUCCEEDED:
        return []
    rule = job.spec.remedier.name if job.spec.remedier is not None else "RULE"
    return [
        (f"kubenode explain node {node}", "what its rules say now"),
        (f"kubenode job run {node} --remedier {rule}", "start another job by hand"),
    ]
