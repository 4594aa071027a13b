"""Decides which job a node gets now, if any, and when to reconcile again. Pure.

The order of the guard clauses is the policy. A rule that is held back records a reason, and the
next rule in the order of choice is considered: a rule without attempts left does not silence a
weaker one.

groupWait and startupGrace do not delay the creation of a job: the job is created with the time that
it has to wait (remedy.job.initialwait). Until that time the choice is made again as if there were
no job, and a rule that is chosen instead supersedes the waiting job.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from kubenode.api.recurrence import opens_at
from kubenode.api.v1alpha1 import HoldReason, Mode, NodeRemedier
from kubenode.api.v1alpha1.remedyoperationjob import InitialWait, JobGroup
from remedy.job.model import INCIDENT_ENDS
from remedy.remedier.past import PERSONS, Past
from rules.history import DAWN
from rules.truth import Truth

REQUEUE_AFTER = timedelta(seconds=30)
"""Interval at which a rule that is held back without a known end is considered again."""
NAME_LENGTH, DIGEST_LENGTH = 63, 10
"""Lengths in the name of a job, in characters."""


class WaitReason(StrEnum):
    """Why a matching rule creates no job now, or a job that waits before it begins."""

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
    COVERED = "CoveredByGroup"
    WINDOW = "WindowClosed"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A rule with known true evidence, in the order of choice.

    since: when its evidence became true: the start of the fault as far as known
    asking: a guard is unknown until the host has answered, or failed to
    events_at: timestamp of the oldest Event that the evidence needs to be true; None: it needs none
    crowded: the rule acts without a permit, and too many nodes match it at once
    covered_by: job that acts for the node's group, as text; "" for none
    """

    rule_id: str
    rule: NodeRemedier
    guards: Truth
    disputed: bool
    since: datetime
    asking: bool = False
    events_at: datetime | None = None
    crowded: bool = False
    covered_by: str = ""

    @property
    def name(self) -> str:
        return self.rule.metadata.name


@dataclass(frozen=True, slots=True)
class Subject:
    """The node of a decision.

    booted_at: when it last booted, as far as known
    first_match: since when some rule has matched without a break; None: none matches
    """

    name: str
    uid: str
    created: datetime | None
    booted_at: datetime | None
    first_match: datetime | None


@dataclass(frozen=True, slots=True)
class JobOrder:
    """A job to create.

    others: rules that matched too, and why they were not chosen
    supersedes: job of a weaker rule that waits for this one; "" for none
    failed_healing: the previous job seemed to have healed the node and is still on probation
    wait: initial wait of the job; None: it begins at once
    group: group that the job is for; None: its node alone
    """

    name: str
    candidate: Candidate
    start_rung: int = 0
    previous: str = ""
    others: tuple[tuple[str, str], ...] = ()
    supersedes: str = ""
    failed_healing: bool = False
    wait: InitialWait | None = None
    group: JobGroup | None = None


@dataclass(frozen=True, slots=True)
class RuleWait:
    """A matching rule that does not act now, and why. `until` is the earliest end of the wait;
    None: until something changes. job: the job of the group that covers the node; "" for none.
    """

    rule: str
    why: WaitReason
    until: datetime | None = None
    job: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now.

    at: when to decide again; None: only after a change
    stronger: the node's open job, and the rule that would supersede it; None: no rule would
    dry_runs: what rules in DryRun would order: for the node record, without a job
    """

    orders: tuple[JobOrder, ...] = ()
    waiting: tuple[RuleWait, ...] = ()
    at: datetime | None = None
    stronger: tuple[str, str] | None = None
    dry_runs: tuple[JobOrder, ...] = ()

    @property
    def waits(self) -> tuple[tuple[str, WaitReason], ...]:
        """Return the waiting rules with their reasons."""
        return tuple((each.rule, each.why) for each in self.waiting)


def decide(
    node: Subject, candidates: Sequence[Candidate], past: Sequence[Past], now: datetime
) -> Decision:
    """Decide for one node. `past`: its open jobs, and closed ones from its node record."""
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
        shadow_orders, shadow_waits, at = _dry_run(node, candidate, past, now)
        dry_runs, waits, times = dry_runs + shadow_orders, waits + shadow_waits, times + at
    again = min((t for t in times if t > now), default=None)
    return Decision(tuple(orders), tuple(waits), again, stronger, tuple(dry_runs))


Outcome = tuple[list[JobOrder], list[RuleWait], list[datetime]]


def _choose(
    node: Subject, candidates: Sequence[Candidate], past: Sequence[Past], now: datetime
) -> Outcome:
    """Choose the first rule that may act; if only startupGrace holds rules back, the first of
    those.
    """
    waits: list[RuleWait] = []
    chosen = None
    for candidate in candidates:
        barrier = _find_barrier(node, candidate, past, now)
        if barrier is None and now < _grace_ends(node, candidate):
            chosen = chosen or candidate
            barrier = WaitReason.STARTUP, _grace_ends(node, candidate)
        if barrier is None:
            chosen = candidate
            break
        waits.append(_rule_wait(candidate, barrier))
    times = [wait.until for wait in waits if wait.until is not None]
    if chosen is None:
        return [], waits, times
    if now < _grace_ends(node, chosen):  # all others wait too, and the strongest comes first
        waits = [wait for wait in waits if wait.why is not WaitReason.STARTUP]
    why = {wait.rule: str(wait.why) for wait in waits}
    losers = tuple(
        (c.name, why.get(c.name, "a stronger rule matched")) for c in candidates if c is not chosen
    )
    return [_order(node, chosen, past, now, losers)], waits, times


def _rule_wait(candidate: Candidate, barrier: tuple[WaitReason, datetime]) -> RuleWait:
    why, until = barrier
    job = candidate.covered_by if why is WaitReason.COVERED else ""
    return RuleWait(candidate.name, why, until, job)


def _beside(
    node: Subject,
    candidates: Sequence[Candidate],
    past: Sequence[Past],
    open_: Sequence[Past],
    now: datetime,
) -> tuple[Outcome, tuple[str, str] | None]:
    """Decide beside an open job: only a stronger rule may act, and the open job ends first. If the
    job has begun, the stronger rule first waits out its own groupWait and startupGrace.
    """
    job = open_[0]
    waits = [_waits_beside(c, job) for c in candidates]
    if len(open_) > 1 or job.node_uid != node.uid or job.priority is None:
        return ([], waits, []), None
    stronger = [c for c in candidates if job.unbegun or c.rule.spec.priority > job.priority]
    orders, chosen_waits, times = _choose(node, stronger, past, now)
    if not orders:
        return ([], _with_times(waits, chosen_waits), times), None
    order = orders[0]
    if (
        job.unbegun
        and not job.allows_successor
        and not _instead(node, order, candidates, job, chosen_waits, now)
    ):
        return ([], waits, times), None
    if not job.unbegun and order.wait is not None:
        waits = _with_times(waits, [*chosen_waits, _waits(order)])
        return ([], waits, [*times, order.wait.not_before]), None
    if not job.allows_successor:
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


def _with_times(waits: Sequence[RuleWait], chosen_waits: Sequence[RuleWait]) -> list[RuleWait]:
    """Return `waits` with the end of startupGrace or groupWait where it is known."""
    until = {
        wait.rule: wait
        for wait in chosen_waits
        if wait.why in (WaitReason.STARTUP, WaitReason.GROUP_WAIT)
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
    chosen_waits: Sequence[RuleWait],
    now: datetime,
) -> bool:
    """Report whether the rule replaces a job that has not begun.

    A rule of higher priority does, and until groupWait is over one that comes first in the order of
    choice. A weaker rule does if a guard, or startupGrace, holds back only the job: it may act
    sooner. A rule in startupGrace never replaces a job that may begin sooner. So two rules with
    flapping evidence do not replace each other again and again.
    """
    chosen = order.candidate
    if chosen.name == job.remedier or job.priority is None:
        return False
    in_grace, job_in_grace = now < _grace_ends(node, chosen), job.waits is HoldReason.STARTUP_GRACE
    if in_grace and not job_in_grace:
        return False
    if chosen.rule.spec.priority > job.priority or (job_in_grace and not in_grace):
        return True
    if any(wait.rule == job.remedier and wait.why in _BARRED for wait in chosen_waits):
        return True
    if chosen.rule.spec.priority < job.priority:
        return False
    names = [c.name for c in candidates]
    first = job.remedier in names and names.index(chosen.name) < names.index(job.remedier)
    return first and now < _group_ends(node, chosen, now)


_BARRED = (WaitReason.GUARD, WaitReason.DISAGREE)
"""Reasons that hold back a job and let a weaker rule act."""


def _grace_ends(node: Subject, candidate: Candidate) -> datetime:
    """Return when startupGrace is over; DAWN if neither creation nor boot of the node is known."""
    started = max((t for t in (node.created, node.booted_at) if t is not None), default=None)
    return DAWN if started is None else started + candidate.rule.spec.startup_grace


def _group_ends(node: Subject, candidate: Candidate, now: datetime) -> datetime:
    return (node.first_match or now) + candidate.rule.spec.group_wait


def _initial_wait(node: Subject, candidate: Candidate, now: datetime) -> InitialWait | None:
    """Return the time that a job of the rule has to wait before it begins; None: it may begin at
    once.
    """
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


def _find_barrier(
    node: Subject, candidate: Candidate, past: Sequence[Past], now: datetime
) -> tuple[WaitReason, datetime] | None:
    """Return why this rule must not create a job for this node now, and its earliest end; None: it
    may.
    """
    spec = candidate.rule.spec
    if candidate.disputed:
        return WaitReason.DISAGREE, now + REQUEUE_AFTER
    if candidate.guards is Truth.TRUE:
        return WaitReason.GUARD, now + REQUEUE_AFTER
    if spec.window is not None and (opens := opens_at(spec.window, now)) is not None:
        return WaitReason.WINDOW, opens
    if candidate.asking:
        return WaitReason.PROBE, now + REQUEUE_AFTER
    here = [p for p in past if p.node_uid == node.uid]  # not on an earlier machine of the same name
    if (incident_ends := _incident_ends(here, candidate, now)) is not None:
        return WaitReason.INCIDENT, incident_ends
    if any(p.healed(candidate.events_at) for p in here if _same_fault(p, candidate)):
        return WaitReason.INCIDENT, now + REQUEUE_AFTER
    mine = [p for p in here if _same(p, candidate)]
    acted = max((p.acted_at for p in mine if p.acted_at is not None), default=None)
    if acted is not None and now < acted + spec.cooldown:
        return WaitReason.COOLDOWN, acted + spec.cooldown
    tries = sorted(p.created for p in mine if p.acted and now < p.created + spec.attempts.within)
    if len(tries) >= spec.attempts.max:
        return WaitReason.ATTEMPTS, tries[-spec.attempts.max] + spec.attempts.within
    if candidate.covered_by:
        return WaitReason.COVERED, now + REQUEUE_AFTER
    if candidate.crowded:
        return WaitReason.BLAST_RADIUS, now + REQUEUE_AFTER
    return None


def _incident_ends(past: Sequence[Past], candidate: Candidate, now: datetime) -> datetime | None:
    """Return until when a closed incident prevents a job of the rule; None: none prevents it.

    A decision of a person applies to all rules. Evidence of another rule that became true within
    INCIDENT_ENDS is a fault of its own: its rule acts once that time is over.
    """
    again = now + REQUEUE_AFTER
    mine = [again for p in past if _same(p, candidate) and p.blocks(candidate.since, now)]
    others = [
        again if p.false_since is None else p.false_since + INCIDENT_ENDS
        for p in past
        if p.reason in PERSONS and not _same(p, candidate) and p.blocks(now, now)
    ]
    return max(mine + others, default=None)


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
    """Return the rung to start on, and the last job that ran for the same fault within
    `relapse.within`: one rung above that job's if it was of this rule, else 0. (0, None) if there
    is none.
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
    """Return what a rule in DryRun would order: once for each incident, within its cooldown and
    attempts as if its orders had been executed. It has no effect on other rules.
    """
    mine = [p for p in past if p.shadow and p.closed is not None and _same(p, candidate)]
    if any(p.node_uid == node.uid and p.false_since is None for p in mine):
        return [], [], []
    barrier = _find_barrier(node, candidate, mine, now)
    if barrier is not None:
        return [], [_rule_wait(candidate, barrier)], [barrier[1]]
    if (wait := _initial_wait(node, candidate, now)) is not None:
        waits = RuleWait(candidate.name, WaitReason(wait.reason), wait.not_before)
        return [], [waits], [wait.not_before]
    name = job_name(node.name, node.uid, now.isoformat(), candidate.name)
    return [JobOrder(name, candidate)], [], []


def latest_closed(past: Sequence[Past]) -> str:
    """Return the name of the job that closed last; "" for none."""
    closed = [p for p in past if p.closed is not None]
    return max(closed, key=lambda p: (p.closed or p.created, p.name)).name if closed else ""


def job_name(node: str, uid: str, latest: str, shadow_of: str = "") -> str:
    """Return the name of the next job; it is the same for the same incident.

    A second open job of a node would have the same name, so it cannot be created.
    """
    parts = (uid, latest, shadow_of) if shadow_of else (uid, latest)
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:DIGEST_LENGTH]
    return f"{node[: NAME_LENGTH - DIGEST_LENGTH - 1].rstrip('.-')}-{digest}"
