"""Decides which job a node gets now, if any, and when to look again. Pure.

The order of the guards is the policy. Whatever keeps a rule from acting says so with a reason, and
the next rule in the order of choice has its turn: a rule that has used up its attempts does not
silence a weaker one.

groupWait and startupGrace keep no job from being made: the job is ordered with the time that it has
to wait (remedy.job.initialwait). Until that is over the choice goes on as if there were no job yet,
and a rule that it would fall on now supersedes the job that waits.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from kubenode.api.v1alpha1 import HoldReason, Mode, NodeRemedier
from kubenode.api.v1alpha1.remedyoperationjob import InitialWait
from remedy.remedier.past import PERSONS, Past
from rules.history import DAWN
from rules.truth import Truth

LOOK_AGAIN = timedelta(seconds=30)
NAME_LENGTH, DIGEST_LENGTH = 63, 10


class WaitReason(StrEnum):
    """Why a rule that matches makes no job now, or one that waits before it begins."""

    OPEN_JOB = "OpenJob"
    GUARD = "Guard"
    PROBE = "Probe"
    DISAGREE = "EnginesDisagree"
    STARTUP = "StartupGrace"
    COOLDOWN = "Cooldown"
    ATTEMPTS = "AttemptsSpent"
    INCIDENT = "IncidentClosed"
    GROUP_WAIT = "GroupWait"
    STALE = "Stale"
    BLAST_RADIUS = "BlastRadius"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A rule whose evidence is plain true, in the order of choice.

    since   when its evidence became true: the start of the fault as we know it
    asking  a guard is unknown until the host has answered, or has failed to
    events_at  stamp of the Event without which the evidence would not be true; None: it needs none
    crowded  the rule acts without a permit, and too many nodes match it at once
    """

    rule_id: str
    rule: NodeRemedier
    guards: Truth
    disputed: bool
    since: datetime
    asking: bool = False
    events_at: datetime | None = None
    crowded: bool = False

    @property
    def name(self) -> str:
        return self.rule.metadata.name


@dataclass(frozen=True, slots=True)
class Subject:
    """The node. first_match: when any rule first matched without a break; None: none does.

    booted_at  when it last booted, as far as we know
    """

    name: str
    uid: str
    created: datetime | None
    booted_at: datetime | None
    first_match: datetime | None


@dataclass(frozen=True, slots=True)
class JobOrder:
    """A job to be made. `others` are the rules that matched too, and why they lost; `supersedes`
    names the weaker rule's job that waits for it. `failed_healing`: the job before it seemed to
    have healed the node and is still on probation. `wait`: it begins later; None: at once.
    """

    name: str
    candidate: Candidate
    start_rung: int = 0
    previous: str = ""
    others: tuple[tuple[str, str], ...] = ()
    supersedes: str = ""
    failed_healing: bool = False
    wait: InitialWait | None = None


@dataclass(frozen=True, slots=True)
class RuleWait:
    """A rule that matches, why it acts on nothing now, and until when at least; `until` None: until
    something changes.
    """

    rule: str
    why: WaitReason
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now. `at` None: nothing to wait for but a change.

    stronger  the node's open job, and the rule that would supersede it
    dry_runs  what rules in DryRun would order: for the node's record, no job is made of them
    """

    orders: tuple[JobOrder, ...] = ()
    waiting: tuple[RuleWait, ...] = ()
    at: datetime | None = None
    stronger: tuple[str, str] | None = None
    dry_runs: tuple[JobOrder, ...] = ()

    @property
    def waits(self) -> tuple[tuple[str, WaitReason], ...]:
        """By rule why it waits."""
        return tuple((each.rule, each.why) for each in self.waiting)


def decide(
    node: Subject, candidates: Sequence[Candidate], past: Sequence[Past], now: datetime
) -> Decision:
    """`past` holds the open jobs of the node, and what its record tells of closed ones."""
    real = [c for c in candidates if c.rule.spec.mode in (Mode.ENFORCE, Mode.APPROVE)]
    shadow = [c for c in candidates if c.rule.spec.mode is Mode.DRY_RUN]
    acting = [p for p in past if not p.shadow]
    stronger = None
    if open_ := [p for p in acting if p.open]:
        outcome, stronger = _beside(node, real, acting, open_, now)
    else:
        outcome = _choose(node, real, acting, now)
    orders, waits, times = outcome
    dry_runs: list[JobOrder] = []
    for candidate in shadow:
        found, held, at = _dry_run(node, candidate, past, now)
        dry_runs, waits, times = dry_runs + found, waits + held, times + at
    again = min((t for t in times if t > now), default=None)
    return Decision(tuple(orders), tuple(waits), again, stronger, tuple(dry_runs))


Outcome = tuple[list[JobOrder], list[RuleWait], list[datetime]]


def _choose(
    node: Subject, candidates: Sequence[Candidate], past: Sequence[Past], now: datetime
) -> Outcome:
    """The first rule that may act gets the job; if startupGrace alone keeps all back, the first of
    them.
    """
    waits: list[RuleWait] = []
    chosen = None
    for candidate in candidates:
        held = _held(node, candidate, past, now)
        if held is None and now < _grace_ends(node, candidate):
            chosen = chosen or candidate
            held = WaitReason.STARTUP, _grace_ends(node, candidate)
        if held is None:
            chosen = candidate
            break
        waits.append(RuleWait(candidate.name, *held))
    times = [wait.until for wait in waits if wait.until is not None]
    if chosen is None:
        return [], waits, times
    if now < _grace_ends(node, chosen):  # so are all others, and the strongest comes first
        waits = [wait for wait in waits if wait.why is not WaitReason.STARTUP]
    why = {wait.rule: str(wait.why) for wait in waits}
    losers = tuple(
        (c.name, why.get(c.name, "a stronger rule matched")) for c in candidates if c is not chosen
    )
    return [_order(node, chosen, past, now, losers)], waits, times


def _beside(
    node: Subject,
    candidates: Sequence[Candidate],
    past: Sequence[Past],
    open_: Sequence[Past],
    now: datetime,
) -> tuple[Outcome, tuple[str, str] | None]:
    """Beside an open job only a stronger rule may act: the job gives way first. For one that has
    begun the stronger rule waits out its own groupWait and startupGrace before that.
    """
    job = open_[0]
    waits = [_waits_beside(c, job) for c in candidates]
    if len(open_) > 1 or job.node_uid != node.uid or job.priority is None:
        return ([], waits, []), None
    stronger = [c for c in candidates if job.unbegun or c.rule.spec.priority > job.priority]
    orders, held, times = _choose(node, stronger, past, now)
    if not orders:
        return ([], _with_times(waits, held), times), None
    order = orders[0]
    if job.unbegun and not job.hands_over and not _instead(node, order, candidates, job, held, now):
        return ([], waits, times), None
    if not job.unbegun and order.wait is not None:
        waits = _with_times(waits, [*held, _waits(order)])
        return ([], waits, [*times, order.wait.not_before]), None
    if not job.hands_over:
        return ([], waits, times), (job.name, order.candidate.name)
    name = job_name(node.name, node.uid, job.name)
    others = {c.name: "a stronger rule matched" for c in candidates if c is not order.candidate}
    others[job.remedier] = f"superseded: job {job.name}"
    order = replace(order, name=name, supersedes=job.name, others=tuple(others.items()))
    return ([order], [], times), None


def _waits_beside(candidate: Candidate, job: Past) -> RuleWait:
    if candidate.name == job.remedier and job.waits is not None:
        return RuleWait(candidate.name, WaitReason(str(job.waits)), job.waits_until)
    return RuleWait(candidate.name, WaitReason.OPEN_JOB)


def _with_times(waits: Sequence[RuleWait], held: Sequence[RuleWait]) -> list[RuleWait]:
    """`waits` beside a job, with what else is known of a rule that time alone keeps back."""
    until = {
        wait.rule: wait for wait in held if wait.why in (WaitReason.STARTUP, WaitReason.GROUP_WAIT)
    }
    return [until.get(wait.rule, wait) for wait in waits]


def _waits(order: JobOrder) -> RuleWait:
    assert order.wait is not None
    return RuleWait(order.candidate.name, WaitReason(order.wait.reason), order.wait.not_before)


def _instead(
    node: Subject,
    order: JobOrder,
    candidates: Sequence[Candidate],
    job: Past,
    held: Sequence[RuleWait],
    now: datetime,
) -> bool:
    """Whether the rule takes the place of a job that has not begun.

    A rule of higher priority does, and until groupWait is over one that comes first in the order of
    choice. A weaker one does where a guard, or startupGrace, keeps back the job alone: it may act
    sooner. What startupGrace keeps back itself takes no place of a job that may begin sooner. So
    two rules whose evidence flaps do not take the place of each other again and again.
    """
    chosen = order.candidate
    if chosen.name == job.remedier or job.priority is None:
        return False
    in_grace, job_in_grace = now < _grace_ends(node, chosen), job.waits is HoldReason.STARTUP_GRACE
    if in_grace and not job_in_grace:
        return False
    if chosen.rule.spec.priority > job.priority or (job_in_grace and not in_grace):
        return True
    if any(wait.rule == job.remedier and wait.why in _BARRED for wait in held):
        return True
    if chosen.rule.spec.priority < job.priority:
        return False
    names = [c.name for c in candidates]
    first = job.remedier in names and names.index(chosen.name) < names.index(job.remedier)
    return first and now < _group_ends(node, chosen, now)


_BARRED = (WaitReason.GUARD, WaitReason.DISAGREE)


def _grace_ends(node: Subject, candidate: Candidate) -> datetime:
    """When startupGrace is over; DAWN where nobody knows when the node was created or booted."""
    started = max((t for t in (node.created, node.booted_at) if t is not None), default=None)
    return DAWN if started is None else started + candidate.rule.spec.startup_grace


def _group_ends(node: Subject, candidate: Candidate, now: datetime) -> datetime:
    return (node.first_match or now) + candidate.rule.spec.group_wait


def _initial_wait(node: Subject, candidate: Candidate, now: datetime) -> InitialWait | None:
    """The time that a job of the rule has to wait before it begins; None: it may begin at once."""
    grace, group = _grace_ends(node, candidate), _group_ends(node, candidate, now)
    if now >= max(grace, group):
        return None
    return InitialWait(
        since=now,
        not_before=max(grace, group),
        reason="StartupGrace" if grace > group else "GroupWait",
        group_wait=candidate.rule.spec.group_wait,
        startup_grace=candidate.rule.spec.startup_grace,
    )


def _held(
    node: Subject, candidate: Candidate, past: Sequence[Past], now: datetime
) -> tuple[WaitReason, datetime] | None:
    """Why this rule must make no job for this node now, and until when at least."""
    spec = candidate.rule.spec
    if candidate.disputed:
        return WaitReason.DISAGREE, now + LOOK_AGAIN
    if candidate.guards is Truth.TRUE:
        return WaitReason.GUARD, now + LOOK_AGAIN
    if candidate.asking:
        return WaitReason.PROBE, now + LOOK_AGAIN
    here = [p for p in past if p.node_uid == node.uid]  # not on a machine that had the name before
    if any(
        p.blocks(candidate.since, now) for p in here if p.reason in PERSONS or _same(p, candidate)
    ):
        return WaitReason.INCIDENT, now + LOOK_AGAIN
    if any(p.healed(candidate.events_at) for p in here if _same_fault(p, candidate)):
        return WaitReason.INCIDENT, now + LOOK_AGAIN
    mine = [p for p in here if _same(p, candidate)]
    acted = max((p.acted_at for p in mine if p.acted_at is not None), default=None)
    if acted is not None and now < acted + spec.cooldown:
        return WaitReason.COOLDOWN, acted + spec.cooldown
    tries = sorted(p.created for p in mine if p.acted and now < p.created + spec.attempts.within)
    if len(tries) >= spec.attempts.max:
        return WaitReason.ATTEMPTS, tries[-spec.attempts.max] + spec.attempts.within
    if candidate.crowded:
        return WaitReason.BLAST_RADIUS, now + LOOK_AGAIN
    return None


def _same(past: Past, candidate: Candidate) -> bool:
    return past.remedier == candidate.name


def _same_fault(past: Past, candidate: Candidate) -> bool:
    return _same(past, candidate) or past.fault_class == candidate.rule.spec.fault_class


def _order(
    node: Subject,
    candidate: Candidate,
    past: Sequence[Past],
    now: datetime,
    losers: tuple[tuple[str, str], ...],
) -> JobOrder:
    rung, last = _relapse(node, candidate, past, now)
    return JobOrder(
        job_name(node.name, node.uid, latest_closed(past)),
        candidate,
        rung,
        last.name if last is not None else "",
        losers,
        failed_healing=last is not None and last.on_probation(now),
        wait=_initial_wait(node, candidate, now),
    )


def _relapse(
    node: Subject, candidate: Candidate, past: Sequence[Past], now: datetime
) -> tuple[int, Past | None]:
    """Where to start on the ladder: one above the last that ran, if the fault came back so soon;
    and the job that ran.
    """
    spec = candidate.rule.spec
    ran = [
        p
        for p in past
        if p.fault_class == spec.fault_class
        and p.node_uid == node.uid
        and p.acted
        and p.closed is not None
        and now < p.closed + spec.relapse.within
    ]
    if not ran:
        return 0, None
    last = max(ran, key=lambda p: p.closed or p.created)
    top = len(spec.ladder or ()) - 1
    return (min(last.rung + 1, top) if _same(last, candidate) else 0), last


def _dry_run(node: Subject, candidate: Candidate, past: Sequence[Past], now: datetime) -> Outcome:
    """What a rule in DryRun would order: once for each incident, within its cooldown and its
    attempts as if the order had been carried out. It counts for no other rule.
    """
    mine = [p for p in past if p.shadow and p.closed is not None and _same(p, candidate)]
    if any(p.node_uid == node.uid and p.false_since is None for p in mine):
        return [], [], []
    held = _held(node, candidate, mine, now)
    if held is not None:
        return [], [RuleWait(candidate.name, *held)], [held[1]]
    if (wait := _initial_wait(node, candidate, now)) is not None:
        waits = RuleWait(candidate.name, WaitReason(wait.reason), wait.not_before)
        return [], [waits], [wait.not_before]
    name = job_name(node.name, node.uid, now.isoformat(), candidate.name)
    return [JobOrder(name, candidate)], [], []


def latest_closed(past: Sequence[Past]) -> str:
    """Name of the job that closed last, "" for none."""
    closed = [p for p in past if p.closed is not None]
    return max(closed, key=lambda p: (p.closed or p.created, p.name)).name if closed else ""


def job_name(node: str, uid: str, latest: str, shadow_of: str = "") -> str:
    """The same for the same incident, however often it is asked for.

    A second open job of a node would have the same name, so it cannot be created.
    """
    parts = (uid, latest, shadow_of) if shadow_of else (uid, latest)
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:DIGEST_LENGTH]
    return f"{node[: NAME_LENGTH - DIGEST_LENGTH - 1].rstrip('.-')}-{digest}"
