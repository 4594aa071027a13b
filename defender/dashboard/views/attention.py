"""What a person on call must see first: what is stopped and why, and what can be done. Pure.

First faults of Kube Defender itself and of the whole fleet, then what only people can resolve: jobs
that wait for a person, and pauses. Then what limits hold, summed up by reason and scope.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from defender.dashboard.fleet import Counts
from defender.dashboard.node_state import FOR_PEOPLE, NodeDisplayState, leading, of_job
from defender.dashboard.scene import Scene
from defender.dashboard.views.holds import HOLDS, HOLDS_MAY
from defender.dashboard.views.pauses import paused
from defender.decision.breaker.control_path import SCOPE as CONTROL_PATH
from defender.decision.jobs import ObservedJob
from kubenode.api.v1alpha1.defenderpolicy import BreakerState
from kubenode.api.v1alpha1.remedyoperationjob import JobPhase

MOST = 12
"""Greatest number of rows of one kind."""


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
    """State of the fleet, in one sentence and by state."""

    template: ClassVar[str] = "parts/headline.html"
    sentence: str
    calm: bool
    nodes: int
    counts: Counts
    key: str = "headline"


def headline(scene: Scene) -> Headline:
    counts = dict(scene.fleet.counts())
    parts = [
        _describe_count(
            counts.get(NodeDisplayState.PERSON, 0),
            "job waits for a person",
            "jobs wait for a person",
        ),
        _describe_count(counts.get(NodeDisplayState.ON_HOLD, 0), "job is held", "jobs are held"),
        _describe_count(
            counts.get(NodeDisplayState.REPAIRING, 0),
            "node is being repaired",
            "nodes are being repaired",
        ),
        _describe_count(
            counts.get(NodeDisplayState.FAULTY, 0), "node is faulty", "nodes are faulty"
        ),
    ]
    clauses = [part for part in parts if part]
    sentence = (
        f"{_listed(clauses)}." if clauses else "All is well: nothing is held, nothing is faulty."
    )
    return Headline(sentence, not clauses, len(scene.fleet), tuple(counts.items()))


def _describe_count(many: int, singular: str, more: str) -> str:
    return "" if not many else f"{many} {singular if many == 1 else more}"


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def attention(scene: Scene) -> list[AttentionRow]:
    return [
        *_trouble(scene),
        *_breakers(scene),
        *_for_people(scene),
        *_pauses(scene),
        *_waiting_jobs(scene),
    ]


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
        job
        for jobs in scene.open_jobs.values()
        for job in jobs.values()
        if job.status.phase in FOR_PEOPLE
    ]
    waiting.sort(key=lambda job: (job.status.phase != JobPhase.AWAITING_APPROVAL, _made(job)))
    for job in waiting[:MOST]:
        name, node = job.metadata.name, job.spec.node_name
        approval = job.status.phase == JobPhase.AWAITING_APPROVAL
        title = f"{node} waits for approval" if approval else f"{node} needs a person"
        may = (
            "Approve: the job asks for a permit and acts within the limits. Deny: it is cancelled."
            if approval
            else "Nothing more is tried, our cordon stays. Say what comes next, or mend it by hand."
        )
        press = "Approve or deny" if approval else "Say what next"
        why = job.status.hold.message if job.status.hold else job.spec.trigger.explanation
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
            title = f"Breaker {'open' if opened else 'half-open'}: {each.scope}"
            if each.scope == CONTROL_PATH:
                title = "The control path is down: everything is frozen"
            may = (
                "Nothing is disrupted here until it half-opens by itself; uncordon, release and"
                " verify go on."
                if opened
                else "A few acts at a time are tried; it closes by itself while nothing new fails."
            )
            key = f"breaker-{policy.name}-{each.scope}"
            yield AttentionRow(
                key, "breaker", title, each.why, each.since, may, "/breakers", "See the breakers"
            )


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
        if job is None or (hold := job.status.hold) is None:
            continue  # a job that has only begun to wait for a permit is not shown yet
        if of_job(job) is NodeDisplayState.ON_HOLD:
            groups[hold.reason, hold.scope].append(job)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    for (reason, scope), waiting in ordered[:MOST]:
        hold = waiting[0].status.hold
        single = len(waiting) == 1
        who = waiting[0].spec.node_name if single else f"{len(waiting)} jobs"
        link = f"/jobs/{waiting[0].metadata.name}" if single else f"/jobs?reason={reason}"
        why = (hold.message if hold and (single or scope) else "") or HOLDS.get(reason, "")
        title = f"{who} held: {reason}"
        yield AttentionRow(
            f"held-{reason}-{scope}", "held", title, why, _oldest(waiting),
            HOLDS_MAY.get(reason, ""), link, "Why" if single else "See them",
        )  # fmt: skip


def _oldest(jobs: list[ObservedJob]) -> datetime | None:
    return min((m for job in jobs if (m := job.metadata.creation_timestamp)), default=None)
