"""How far a disruption is prepared, and what is done next. Pure.

In policy order: a person's word, a freeze, an open job, Kube Defender, the cordon, the pods. An act
that is under way waits for none of those in the middle; it only keeps its permit.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from kubenode.api.duration import format_duration
from kubenode.api.v1alpha1 import Disruption, Reason, Verdict
from kubenode.api.v1alpha1.machinework import ChangeClass
from kubenode.runtime.drain.words import Pods
from machine.disruption.cordon import Cordoned, uncordoned
from machine.disruption.port import (
    DISRUPTION,
    UNNEEDED,
    DisruptionHold,
    DisruptionRequest,
    DisruptionState,
    Prepared,
)

SOON, LATE = timedelta(seconds=5), timedelta(minutes=1)
"""Between two looks: at pods that leave, and at what wakes us when it changes."""
UNCLEAR = frozenset({Reason.STORE_UNAVAILABLE, Reason.STALE_DATA})
"""Refusals that say nothing of the node: what stands there stays for the time being."""


class DisruptionAct(StrEnum):
    """GIVE_BACK  the mark and the permit, as `end` does
    ASK       for the permit, or whether it is still held
    CORDON    under our mark
    LOOK      at the pods that are left
    EVICT     those that are due
    """

    GIVE_BACK = "GiveBack"
    ASK = "Ask"
    CORDON = "Cordon"
    LOOK = "Look"
    EVICT = "Evict"


@dataclass(frozen=True, slots=True)
class DisruptionObservation:
    """What is known in one run; it grows by what each act brings.

    node     None: there is no Node
    job      the open job that may act on the node, "" for none
    frozen   why nothing may be disrupted now, "" if it may
    owned    whether a permit of the holder is known of
    verdict  Kube Defender's answer in this run, or why there was none; None: it was not asked yet
    renew    when the permit is to be renewed
    pods     None: not looked at yet in this run
    evicted  whether evictions were asked for in this run
    error    why an eviction could not be asked for, "" if it could
    """

    now: datetime
    node: Cordoned | None
    job: str = ""
    frozen: str = ""
    owned: bool = False
    verdict: Verdict | str | None = None
    renew: datetime | None = None
    pods: Pods | None = None
    evicted: bool = False
    error: str = ""


def step(wish: DisruptionRequest, seen: DisruptionObservation) -> Prepared | DisruptionAct:
    """What to do next in this run, or how it ends."""
    if DISRUPTION[wish.class_] is Disruption.NONE:
        return Prepared(DisruptionState.READY, UNNEEDED)
    if wish.node is None or seen.node is None:
        stopped = seen.frozen and not wish.begun
        return _frozen(seen) if stopped else Prepared(DisruptionState.READY, UNNEEDED)
    if uncordoned(seen.node, wish.holder):
        if seen.frozen:  # after a restore of etcd the Node may be the backup's
            return _frozen(seen)
        why = "somebody made the node schedulable, which cancels what it was cordoned for"
        return Prepared(
            DisruptionState.FAILED, reason=DisruptionHold.PERSON_UNCORDONED, message=why
        )
    if not wish.begun and (held := _held_up(wish, seen, seen.node)) is not None:
        return held
    match seen.verdict:
        case None:
            return DisruptionAct.ASK
        case str(why):
            return _waiting(seen, DisruptionHold.DEFENDER_UNREACHABLE, why, seen.now + SOON)
        case Verdict(allowed=False) as no:
            return _refused(wish, seen, seen.node, no)
        case Verdict() as leave:
            return _allowed(wish, seen, seen.node, leave)


def _held_up(
    wish: DisruptionRequest, seen: DisruptionObservation, node: Cordoned
) -> Prepared | DisruptionAct | None:
    if seen.job:
        if seen.owned or node.has(wish.holder):
            return DisruptionAct.GIVE_BACK
        return _waiting(seen, DisruptionHold.REMEDY_JOB_OPEN, f"{seen.job} repairs the node", None)
    return _frozen(seen) if seen.frozen else None


def _frozen(seen: DisruptionObservation) -> Prepared:
    return _waiting(seen, DisruptionHold.MELTDOWN, seen.frozen, None)


def _refused(
    wish: DisruptionRequest, seen: DisruptionObservation, node: Cordoned, no: Verdict
) -> Prepared | DisruptionAct:
    if node.has(wish.holder) and not wish.begun and no.reason not in UNCLEAR:
        return DisruptionAct.GIVE_BACK
    message = no.message or f"Kube Defender refuses: {no.reason}"
    return _waiting(seen, no.reason, message, no.look_again_at)


def _allowed(
    wish: DisruptionRequest, seen: DisruptionObservation, node: Cordoned, leave: Verdict
) -> Prepared | DisruptionAct:
    if wish.begun or wish.class_.weight < ChangeClass.DRAIN.weight:
        return _ready(seen, leave)
    if not node.unschedulable:
        return DisruptionAct.CORDON
    if seen.pods is None:
        return DisruptionAct.LOOK
    if seen.pods.left == 0:
        return _ready(seen, leave)
    if leave.granted_at is not None and seen.now >= leave.granted_at + wish.drain_timeout:
        after = format_duration(wish.drain_timeout)
        why = f"pods are still on the node after {after}: {_why(seen.pods)[1]}"
        return Prepared(
            DisruptionState.FAILED,
            leave.permit,
            leave.expires_at,
            DisruptionHold.DRAIN_TIMEOUT,
            why,
        )
    if seen.pods.due and not seen.evicted:
        return DisruptionAct.EVICT
    return _draining(wish, seen, seen.pods, leave)


def _draining(
    wish: DisruptionRequest, seen: DisruptionObservation, pods: Pods, leave: Verdict
) -> Prepared:
    reason, why = _why(pods)
    times = [pods.at, pods.blocked.until if pods.blocked is not None else None]
    times += [leave.granted_at + wish.drain_timeout if leave.granted_at is not None else None]
    at = min([time for time in times if time is not None], default=seen.now + SOON)
    look = _seconds(seen, min(at, seen.now + SOON))
    message = seen.error or why
    return Prepared(DisruptionState.DRAINING, leave.permit, leave.expires_at, reason, message, look)


def _why(pods: Pods) -> tuple[DisruptionHold, str]:
    if pods.blocked is not None:
        blocked = pods.blocked
        return DisruptionHold.PDB_BLOCKED, f"pod {blocked.pod} cannot be evicted: {blocked.message}"
    return DisruptionHold.DRAINING, pods.waiting or "pods are leaving"


def _ready(seen: DisruptionObservation, leave: Verdict) -> Prepared:
    look = _seconds(seen, seen.renew or seen.now + LATE)
    return Prepared(DisruptionState.READY, leave.permit, leave.expires_at, look_again=look)


def _waiting(
    seen: DisruptionObservation, reason: str, message: str, at: datetime | None
) -> Prepared:
    look = _seconds(seen, at or seen.now + LATE)
    return Prepared(DisruptionState.WAITING, reason=str(reason), message=message, look_again=look)


def _seconds(seen: DisruptionObservation, at: datetime) -> float:
    return max((at - seen.now).total_seconds(), 1.0)
