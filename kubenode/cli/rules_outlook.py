"""Explains what a matching rule waits for now, and until when. It ends the rule's explanation.

The choice is made by production code (remedy.remedier.choice). In a live cluster it is made once
and without the operator's memory of when rules began to match. A job's own hold is reported
unchanged.
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
from remedy.remedier.decide import Candidate, Decision, RuleWait, WaitReason
from remedy.remedier.judge import rule_id
from remedy.remedier.messages import sentence
from rules.diagnose import Diagnoser
from rules.program import RuleVersion


@dataclass(frozen=True, slots=True)
class RuleOutlook:
    """What happens with a rule that matches.

    why: the reason of the wait, `Acts` if its job is made now, `Job` if its job has begun.
    text: a sentence.
    until: the earliest end of the wait; None if it ends by a change.
    """

    why: str
    text: str
    until: datetime | None = None

    def to_json(self) -> dict[str, Any]:
        until = {"until": format_time(self.until)} if self.until is not None else {}
        return {"why": self.why, "text": self.text, **until}


def of_live(live: Live, now: datetime) -> Mapping[str, RuleOutlook]:
    """Return the outlook of each rule that matches the node now, by name."""
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
    name = live.node.metadata.name

    def cover(candidate: Candidate) -> str:
        jobs = live.group_jobs
        return jobs.cover(name, candidate, now) if jobs is not None else ""

    choice = Mind().choose(
        live.node,
        live.booted_at,
        live.facts,
        diagnosis,
        active,
        past,
        now,
        crowded=crowded,
        cover=cover,
    )
    outlooks = _of_decision(choice.decision)
    for job in live.jobs:
        rule, status = job.spec.remedier, job.status
        if rule is not None and not status.phase.closed:
            hold = (status.hold.reason, status.hold.message) if status.hold is not None else None
            with_job(outlooks, rule.name, job.metadata.name, status.phase, hold)
    return outlooks


def waits_of(waiting: Sequence[RuleWait]) -> dict[str, RuleOutlook]:
    """Return the outlooks of rules that wait, by name."""
    return {wait.rule: RuleOutlook(str(wait.why), sentence(wait), wait.until) for wait in waiting}


def with_job(
    outlooks: dict[str, RuleOutlook],
    rule: str,
    name: str,
    phase: JobPhase,
    hold: tuple[str, str] | None,
) -> None:
    """Replace the outlook of a rule that has an open job by the state of that job.

    hold: reason and message of the job's hold; None for no hold.
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
    """Return the lines below the explanation of a rule; none for a rule that does not match."""
    return () if standing is None else (f"  now: {standing.text}",)
