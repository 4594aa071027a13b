"""What a person on call must see first: faults, what is stopped and why, what can be done. Pure.

The headline is about nodes. Rows follow: faults of Kube Defender itself and of the whole fleet,
then what only people can resolve: jobs that wait for a person, stopped rollouts, programs and
agents that do not run, and pauses. Then what limits hold, and what rules in DryRun would do.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar
from urllib.parse import quote

from defender.dashboard.node_state import NodeDisplayState, leading, of_job
from defender.dashboard.scene import Scene
from defender.dashboard.views.holds import HOLDS, HOLDS_MAY, NO_VERDICT, hold_sentence
from defender.dashboard.views.pauses import paused
from defender.decision.breaker.control_path import SCOPE as CONTROL_PATH
from defender.decision.jobs import ObservedJob
from defender.decision.pauses import describe_scope
from defender.overview.programs import cover_agents
from defender.overview.records import DryRunView, current_dry_runs
from defender.overview.situation import waits_for_person
from defender.overview.summary import FleetSummary, FleetSurroundings, summarize_fleet
from defender.replicas.lifesigns import agent_of
from kubenode.api.v1alpha1.defenderpolicy import BreakerState
from kubenode.api.v1alpha1.remedyoperationjob import JobPhase

MOST = 12
"""Greatest number of rows of one kind."""
ANSWERED_WITHIN = timedelta(minutes=5)
"""Kube Defender answers within seconds. A job that waits longer for its first verdict is shown."""


@dataclass(frozen=True, slots=True)
class AttentionRow:
    """One row.

    kind: name of its symbol: person, breaker, pause, trouble, held.
    may: what a person can do about it, and what happens then; "" if nothing.
    link: target of the link, "" for none.
    press: text of the link.
    """

    template: ClassVar[str] = "parts/attention.html"
    key: str
    kind: str
    title: str
    why: str
    since: datetime | None = None
    may: str = ""
    link: str = ""
    press: str = ""


@dataclass(frozen=True, slots=True)
class Headline:
    """State of the fleet: its faults, and apart from them what is done.

    since: start of the oldest present fault.
    causes: what the faults are inferred to come from.
    activities: (letter of a state, text).
    """

    template: ClassVar[str] = "parts/headline.html"
    sentence: str
    calm: bool
    nodes: int
    since: datetime | None = None
    causes: tuple[str, ...] = ()
    activities: tuple[tuple[str, str], ...] = ()
    key: str = "headline"


ACTIVITY_STATES = {
    "person": NodeDisplayState.PERSON,
    "held": NodeDisplayState.ON_HOLD,
    "repairing": NodeDisplayState.REPAIRING,
    "dry-run": NodeDisplayState.FAULTY,
    "undisturbed": NodeDisplayState.FAULTY,
    "unattended": NodeDisplayState.FAULTY,
    "upgrading": NodeDisplayState.UPGRADING,
}
NOTICE_LINKS = {
    "rollout": ("/rollouts/{}", "See the rollout"),
    "rules": ("/rules", "See the rules"),
}


@dataclass(frozen=True, slots=True)
class FirstGlance:
    """The headline of the fleet page and the rows below it."""

    headline: Headline
    rows: list[AttentionRow]


def first_glance(scene: Scene) -> FirstGlance:
    summary = summary_of(scene)
    rows = attention(scene, summary)
    return FirstGlance(_headline(scene, summary, rows), rows)


def _headline(scene: Scene, summary: FleetSummary, rows: list[AttentionRow]) -> Headline:
    calm = summary.calm and not scene.ready and not rows
    sentence = summary.sentence if calm or not summary.calm else "No node has a fault."
    activities = tuple((ACTIVITY_STATES[kind].letter, text) for kind, text in summary.activities())
    return Headline(sentence, calm, summary.nodes, summary.since, summary.causes, activities)


def summary_of(scene: Scene) -> FleetSummary:
    agents = (agent_of(node) for node in scene.nodes.values())
    rules = scene.rules.values()
    around = FleetSurroundings(
        rules=scene.rules,
        rollouts=scene.rollouts,
        programs=scene.programs,
        agents=cover_agents(scene.programs, agents, rules),
        causes=tuple(_causes(scene)),
        stale="" if scene.loaded and not scene.late else "some caches are not current",
    )
    return summarize_fleet(scene.fleet.situations(), around)


def _causes(scene: Scene) -> Iterator[str]:
    """Yield what Kube Defender's breakers found faults to have in common."""
    if scene.control.breakers.control_path.frozen is not None:
        yield "the control path, not the nodes"
    for policy in scene.control.policies or (scene.control.fallback,):
        for cause, value in sorted(scene.control.breakers.causes(policy.name)):
            yield f"{cause} {value}"


def attention(scene: Scene, summary: FleetSummary) -> list[AttentionRow]:
    return [
        *_trouble(scene),
        *_breakers(scene),
        *_for_people(scene),
        *_notices(summary),
        *_pauses(scene),
        *_waiting_jobs(scene),
        *_dry_runs(scene),
    ]


def _notices(summary: FleetSummary) -> Iterator[AttentionRow]:
    for notice in summary.notices:
        link, press = NOTICE_LINKS.get(notice.kind, ("", ""))
        key = f"{notice.kind}-{notice.key}"
        kind = "person" if notice.kind == "rollout" else "trouble"
        link = link.format(quote(notice.key, safe=""))
        yield AttentionRow(key, kind, notice.title, notice.why, None, notice.remedy, link, press)


def _trouble(scene: Scene) -> Iterator[AttentionRow]:
    for policy in scene.control.policies:
        for problem in policy.problems:
            why = f"Everything that this policy covers is refused: {problem}"
            may = "Correct the policy; what it covers is allowed again within seconds."
            key = f"policy-{policy.name}-{problem[:40]}"
            yield AttentionRow(
                key, "trouble", f"Policy {policy.name} cannot be kept", why, None, may
            )


def _for_people(scene: Scene) -> Iterator[AttentionRow]:
    waiting = [
        job for jobs in scene.open_jobs.values() for job in jobs.values() if waits_for_person(job)
    ]
    waiting.sort(key=lambda job: (job.status.phase != JobPhase.AWAITING_APPROVAL, _made(job)))
    for job in waiting[:MOST]:
        name, node = job.metadata.name, job.spec.node_name
        approval = job.status.phase == JobPhase.AWAITING_APPROVAL
        title = f"{node} waits for approval" if approval else f"{node} needs a person"
        may = (
            "Approve: the job asks for a permit and acts within the limits. Deny: it is cancelled."
            if approval
            else "The cordon stays. Choose what comes next, or repair the node by hand."
        )
        press = "Approve or deny" if approval else "Choose what comes next"
        why = job.status.hold.message if job.status.hold else job.spec.trigger.summary
        rule = job.spec.remedier.name or "a person"
        yield AttentionRow(
            f"job-{name}", "person", title, f"{rule}: {why or job.spec.fault_class}",
            job.metadata.creation_timestamp, may, f"/jobs/{name}", press,
        )  # fmt: skip
    if len(waiting) > MOST:
        title = f"{len(waiting) - MOST} more jobs wait for a person"
        yield AttentionRow(
            "job-more", "person", title, "", None, "", "/jobs?show=person", "See them all"
        )


def _made(job: ObservedJob) -> str:
    return str(job.metadata.creation_timestamp)


def _breakers(scene: Scene) -> Iterator[AttentionRow]:
    for policy in scene.control.policies or (scene.control.fallback,):
        for each in scene.control.breakers.status(policy.name):
            if each.state is BreakerState.CLOSED:
                continue
            opened = each.state is BreakerState.OPEN
            title = f"Breaker {'open' if opened else 'half-open'}: {describe_scope(each.scope)}"
            if each.scope == CONTROL_PATH:
                title = "The control path is down: everything is frozen"
            may = (
                "Nothing is disrupted here until it half-opens by itself; uncordon, release and"
                " verify go on."
                if opened
                else "A few acts at a time are tried; it closes by itself while nothing new fails."
            )
            key = f"breaker-{policy.name}-{describe_scope(each.scope)}"
            why = f"When it {'opened' if opened else 'half-opened'}: {each.why}."
            if each.scope != CONTROL_PATH:
                why += f" Now: {_unhealthy(scene, policy.name, each.scope)}."
            yield AttentionRow(
                key, "breaker", title, why, each.since, may, "/breakers", "See the breakers"
            )


def _unhealthy(scene: Scene, policy: str, scope: str) -> str:
    """Return how many nodes of the scope are unhealthy now."""
    for watch in scene.control.breakers.watches():
        if watch.policy.name == policy:
            group = watch.group(scope)
            return f"{group.unhealthy} of {group.members} nodes are unhealthy"
    return "not known"


def _pauses(scene: Scene) -> Iterator[AttentionRow]:
    for row in paused(scene):
        end = f" until {row.until:%Y-%m-%d %H:%M} UTC" if row.until else ""
        why = f"by {row.by or 'somebody'}{end}" + (f": {row.why}" if row.why else "")
        may = "Resume: what waits here asks again, and acts within the limits."
        title = f"Paused: {row.key}"
        yield AttentionRow(f"pause-{row.key}", "pause", title, why, None, may, "/pauses", "Resume")


def _waiting_jobs(scene: Scene) -> Iterator[AttentionRow]:
    """Return the held jobs by reason and scope, the most first, without those that wait for a
    person.
    """
    groups: dict[tuple[str, str], list[ObservedJob]] = defaultdict(list)
    for jobs in scene.open_jobs.values():
        job = leading(jobs.values())
        if job is None or of_job(job) is not NodeDisplayState.ON_HOLD:
            continue
        if (hold := job.status.hold) is not None:
            groups[hold.reason, hold.scope].append(job)
        elif _is_unanswered(job, scene.now):
            groups[NO_VERDICT, ""].append(job)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    for (reason, scope), waiting in ordered[:MOST]:
        hold = waiting[0].status.hold
        single = len(waiting) == 1
        who = waiting[0].spec.node_name if single else f"{len(waiting)} jobs"
        several = "/jobs" if reason == NO_VERDICT else f"/jobs?reason={reason}"
        link = f"/jobs/{waiting[0].metadata.name}" if single else several
        why = hold_sentence(hold) if hold and (single or scope) else ""
        why = why or HOLDS.get(reason, "")
        title = f"{who} held: {reason}"
        yield AttentionRow(
            f"held-{reason}-{scope}", "held", title, why, _oldest(waiting),
            HOLDS_MAY.get(reason, ""), link, "Why" if single else "See them",
        )  # fmt: skip


def _is_unanswered(job: ObservedJob, now: datetime) -> bool:
    """Return whether the job has waited for a verdict for longer than one takes."""
    created = job.metadata.creation_timestamp
    return created is not None and now - created >= ANSWERED_WITHIN


def _oldest(jobs: list[ObservedJob]) -> datetime | None:
    """Return since when the first of the jobs is held."""
    times = ((job.status.hold.since if job.status.hold else None, job) for job in jobs)
    starts = (since or job.metadata.creation_timestamp for since, job in times)
    return min((at for at in starts if at is not None), default=None)


def _dry_runs(scene: Scene) -> Iterator[AttentionRow]:
    """Yield what rules in DryRun would do about present faults, by rule, the most nodes first."""
    by_rule: dict[str, list[tuple[str, DryRunView]]] = defaultdict(list)
    for name in (each.name for each in scene.fleet.situations() if each.dry_runs):
        if (node := scene.nodes.get(name)) is not None:
            for run in current_dry_runs(scene.records.get(name), node, scene.rules):
                by_rule[run.remedier].append((name, run))
    ordered = sorted(by_rule.items(), key=lambda item: (-len(item[1]), item[0]))
    for rule, runs in ordered[:MOST]:
        name, run = min(runs, key=lambda each: str(each[1].began))
        single = len(runs) == 1
        who = name if single else f"{len(runs)} nodes"
        yield AttentionRow(
            f"dry-run-{rule}", "dry-run", f"{who} would be repaired by {rule}, which is in DryRun",
            _capitalized(run.sentence), run.began,
            "Set its mode to Enforce or Approve to let it act.",
            "/would-have", "See what it would have done",
        )  # fmt: skip


def _capitalized(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
