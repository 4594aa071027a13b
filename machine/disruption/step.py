"""Decide how far a disruption is prepared and what to do next. Pure.

Checks run in this order: a person's uncordon, an open job, a meltdown, Kube Defender, the cordon,
the pods. An act that is under way is not interrupted; it only keeps its permit.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from kubenode.api.cordon import CordonState, add_mark, mark_of, was_uncordoned
from kubenode.api.duration import format_duration
from kubenode.api.v1alpha1 import Disruption, Reason, Verdict
from kubenode.api.v1alpha1.machinework import ChangeClass
from kubenode.runtime.drain.observation import Pods
from machine.disruption.port import (
    DISRUPTION,
    UNNEEDED,
    DisruptionHold,
    DisruptionRequest,
    DisruptionState,
    Prepared,
)

SOON, LATE = timedelta(seconds=5), timedelta(minutes=1)
"""SOON: interval while pods leave. LATE: interval while a change wakes the caller anyway."""
UNCLEAR = frozenset({Reason.STORE_UNAVAILABLE, Reason.STALE_DATA})
"""Refusals for lack of data. They say nothing about the node, so its cordon stays."""


class DisruptionAct(StrEnum):
    """What to do next.

    GIVE_BACK: remove the mark and release the permit, as `end` does.
    ASK: request the permit, or check that it is still held.
    CORDON: cordon the node with the holder's mark.
    LIST_PODS: list the pods that are left.
    EVICT: evict the pods that are due.
    """

    GIVE_BACK = "GiveBack"
    ASK = "Ask"
    CORDON = "Cordon"
    LIST_PODS = "Look"
    EVICT = "Evict"


@dataclass(frozen=True, slots=True)
class DisruptionObservation:
    """What is known in one run. Each act adds its result.

    node: None if there is no Node.
    job: the open job that may act on the node, "" for none.
    frozen: why nothing may be disrupted now, "" if it may.
    owned: whether the holder is known to have a permit.
    verdict: Kube Defender's answer in this run, or the error as text. None before the request.
    renew: the time at which to renew the permit, None if unknown.
    pods: the pods that are left, None before they are listed in this run.
    evicted: whether evictions were requested in this run.
    error: why an eviction could not be requested, "" if it could.
    """

    now: datetime
    node: CordonState | None
    job: str = ""
    frozen: str = ""
    owned: bool = False
    verdict: Verdict | str | None = None
    renew: datetime | None = None
    pods: Pods | None = None
    evicted: bool = False
    error: str = ""


def step(wish: DisruptionRequest, observation: DisruptionObservation) -> Prepared | DisruptionAct:
    """Return what to do next in this run, or its result."""
    if DISRUPTION[wish.class_] is Disruption.NONE:
        return Prepared(DisruptionState.READY, UNNEEDED)
    if wish.node is None or observation.node is None:
        stopped = observation.frozen and not wish.begun
        return _frozen(observation) if stopped else Prepared(DisruptionState.READY, UNNEEDED)
    if was_uncordoned(observation.node, mark_of(wish.holder)):
        if observation.frozen:  # after a restore of etcd the Node may come from the backup
            return _frozen(observation)
        why = "somebody made the node schedulable, which cancels what it was cordoned for"
        return Prepared(
            DisruptionState.FAILED, reason=DisruptionHold.PERSON_UNCORDONED, message=why
        )
    if (
        not wish.begun
        and (barrier := _find_barrier(wish, observation, observation.node)) is not None
    ):
        return barrier
    match observation.verdict:
        case None:
            return DisruptionAct.ASK
        case str(why):
            return _waiting(
                observation, DisruptionHold.DEFENDER_UNREACHABLE, why, observation.now + SOON
            )
        case Verdict(allowed=False) as no:
            return _refused(wish, observation, observation.node, no)
        case Verdict() as leave:
            return _allowed(wish, observation, observation.node, leave)


def _find_barrier(
    wish: DisruptionRequest, observation: DisruptionObservation, node: CordonState
) -> Prepared | DisruptionAct | None:
    """Return what holds back an act that has not begun: an open job or a meltdown. None for
    nothing.
    """
    if observation.job:
        if observation.owned or mark_of(wish.holder) in node.marks:
            return DisruptionAct.GIVE_BACK
        return _waiting(
            observation, DisruptionHold.REMEDY_JOB_OPEN, f"{observation.job} repairs the node", None
        )
    return _frozen(observation) if observation.frozen else None


def _frozen(observation: DisruptionObservation) -> Prepared:
    return _waiting(observation, DisruptionHold.MELTDOWN, observation.frozen, None)


def _refused(
    wish: DisruptionRequest, observation: DisruptionObservation, node: CordonState, no: Verdict
) -> Prepared | DisruptionAct:
    """Handle a refusal. A clear one also removes the holder's cordon, if the act has not begun."""
    if mark_of(wish.holder) in node.marks and not wish.begun and no.reason not in UNCLEAR:
        return DisruptionAct.GIVE_BACK
    message = no.message or f"Kube Defender refuses: {no.reason}"
    return _waiting(observation, no.reason, message, no.look_again_at)


def _allowed(
    wish: DisruptionRequest, observation: DisruptionObservation, node: CordonState, leave: Verdict
) -> Prepared | DisruptionAct:
    """Return the next act under a granted permit: cordon, list pods, evict, wait, or ready."""
    if wish.begun or wish.class_.weight < ChangeClass.DRAIN.weight:
        return _ready(observation, leave)
    if add_mark(node, mark_of(wish.holder)) is not None:
        return DisruptionAct.CORDON
    if observation.pods is None:
        return DisruptionAct.LIST_PODS
    if observation.pods.remaining == 0:
        return _ready(observation, leave)
    if leave.granted_at is not None and observation.now >= leave.granted_at + wish.drain_timeout:
        after = format_duration(wish.drain_timeout)
        why = f"pods are still on the node after {after}: {_why(observation.pods)[1]}"
        return Prepared(
            DisruptionState.FAILED,
            leave.permit,
            leave.expires_at,
            DisruptionHold.DRAIN_TIMEOUT,
            why,
        )
    if observation.pods.due and not observation.evicted:
        return DisruptionAct.EVICT
    return _draining(wish, observation, observation.pods, leave)


def _draining(
    wish: DisruptionRequest, observation: DisruptionObservation, pods: Pods, leave: Verdict
) -> Prepared:
    reason, why = _why(pods)
    times = [pods.at, pods.blocked.until if pods.blocked is not None else None]
    times += [leave.granted_at + wish.drain_timeout if leave.granted_at is not None else None]
    at = min([time for time in times if time is not None], default=observation.now + SOON)
    requeue_after = _seconds(observation, min(at, observation.now + SOON))
    message = observation.error or why
    return Prepared(
        DisruptionState.DRAINING, leave.permit, leave.expires_at, reason, message, requeue_after
    )


def _why(pods: Pods) -> tuple[DisruptionHold, str]:
    if pods.blocked is not None:
        blocked = pods.blocked
        return DisruptionHold.PDB_BLOCKED, f"pod {blocked.pod} cannot be evicted: {blocked.message}"
    return DisruptionHold.DRAINING, pods.waiting or "pods are leaving"


def _ready(observation: DisruptionObservation, leave: Verdict) -> Prepared:
    requeue_after = _seconds(observation, observation.renew or observation.now + LATE)
    return Prepared(
        DisruptionState.READY, leave.permit, leave.expires_at, requeue_after=requeue_after
    )


def _waiting(
    observation: DisruptionObservation, reason: str, message: str, at: datetime | None
) -> Prepared:
    requeue_after = _seconds(observation, at or observation.now + LATE)
    return Prepared(
        DisruptionState.WAITING, reason=str(reason), message=message, requeue_after=requeue_after
    )


def _seconds(observation: DisruptionObservation, at: datetime) -> float:
    return max((at - observation.now).total_seconds(), 1.0)
