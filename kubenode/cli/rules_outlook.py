"""What a rule that matches a node waits for now, and until when: the end of its explanation.

The choice is production's (remedy.remedier.choice). Of a live cluster it is made once, without what
the operator remembers: since when rules match. A job that waits says that itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import JobPhase
from kubenode.api.v1alpha1.remedyoperationjob import InitialWait
from kubenode.cli.live import Live
from remedy.noderecord.memory import past_of
from remedy.registry.status import is_crowded
from remedy.remedier.choice import Mind
from remedy.remedier.decide import Decision, RuleWait, WaitReason
from remedy.remedier.judge import rule_id
from remedy.remedier.messages import sentence
from rules.diagnose import Diagnoser
from rules.program import RuleVersion


@dataclass(frozen=True, slots=True)
class RuleOutlook:
    """What becomes of a rule that matches.

    why    the reason, `Acts` for one that makes its job now, `Job` for one whose job has begun
    text   a sentence
    until  when it is over at the earliest; None: when something changes
    """

    why: str
    text: str
    until: datetime | None = None

    def to_json(self) -> dict[str, Any]:
        until = {"until": format_time(self.until)} if self.until is not None else {}
        return {"why": self.why, "text": self.text, **until}


def of_live(live: Live, now: datetime) -> Mapping[str, RuleOutlook]:
    """By name what becomes of each rule that matches the node now."""
    if live.node is None or not live.facts.fresh:
        return {}
    active = {
        rule_id(rule.remedier.metadata.name, rule.remedier.metadata.generation): rule.remedier
        for rule in (compiled.rule for compiled in live.program.rules)
    }
    diagnoser = Diagnoser()
    diagnoser.load([RuleVersion(id_, rule) for id_, rule in active.items()])
    (diagnosis,) = diagnoser.diagnose([live.facts], now)
    past = past_of(live.record, live.jobs)
    crowded = [id_ for id_, rule in active.items() if is_crowded(rule)]
    choice = Mind().choose(
        live.node, live.booted_at, live.facts, diagnosis, active, past, now, crowded=crowded
    )
    outlooks = _of_decision(choice.decision)
    for job in live.jobs:
        rule, status = job.spec.remedier, job.status
        if rule is not None and not status.phase.closed:
            hold = (status.hold.reason, status.hold.message) if status.hold is not None else None
            with_job(outlooks, rule.name, job.metadata.name, status.phase, hold)
    return outlooks


def waits_of(waiting: Sequence[RuleWait]) -> dict[str, RuleOutlook]:
    """By rule."""
    return {wait.rule: RuleOutlook(str(wait.why), sentence(wait), wait.until) for wait in waiting}


def with_job(
    outlooks: dict[str, RuleOutlook],
    rule: str,
    name: str,
    phase: JobPhase,
    hold: tuple[str, str] | None,
) -> None:
    """Tell of an open job of the rule, unless it waits before it begins, which is told already.

    hold  reason and sentence of its hold
    """
    standing = outlooks.get(rule)
    if standing is None or standing.why != WaitReason.OPEN_JOB:
        return
    why = f", held: {hold[0]}: {hold[1]}" if hold is not None else ""
    outlooks[rule] = RuleOutlook("Job", f"its job {name} is {phase}{why}")


def _of_decision(decision: Decision) -> dict[str, RuleOutlook]:
    outlooks = waits_of(decision.waiting)
    for order in decision.orders:
        outlooks[order.candidate.name] = _ordered(order.wait)
    for order in decision.dry_runs:
        text = "in DryRun it would make its job now"
        outlooks[order.candidate.name] = RuleOutlook("Acts", text)
    if decision.stronger is not None:
        job, rule = decision.stronger
        outlooks[rule] = RuleOutlook("Acts", f"it supersedes job {job} and makes its own")
    return outlooks


def _ordered(wait: InitialWait | None) -> RuleOutlook:
    if wait is None:
        return RuleOutlook("Acts", "its job is made now")
    waiting = RuleWait("", WaitReason(wait.reason), wait.not_before)
    return RuleOutlook(str(wait.reason), f"its job is made now and waits: {sentence(waiting)}")


def lines(standing: RuleOutlook | None) -> Sequence[str]:
    """Below the explanation of a rule; none for one that does not match."""
    return () if standing is None else (f"  now: {standing.text}",)
