"""The list of jobs, with filters. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from defender.dashboard.node_state import ZONE, NodeDisplayState, of_job
from defender.dashboard.scene import Scene
from defender.decision.jobs import ObservedJob
from defender.overview.evidence import describe_fault
from defender.overview.situation import waits_for_person
from kubenode.api.v1alpha1.remedyoperationjob import JobPhase
from kubenode.runtime.site.parts import PagePart, Summary

MOST = 200
SHOWS = {"open": "Open", "person": "Waiting for a person", "held": "Held", "closed": "Closed"}
FILTERS = ("show", "q", "reason", "zone", "rule")


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job.

    state: the name of its symbol, "" for a closed job.
    fault, evidence: its fault in words, and what the rule observed.
    """

    template: ClassVar[str] = "parts/job_row.html"
    key: str
    node: str
    zone: str
    state: str
    phase: str
    rule: str
    severity: str
    fault: str
    evidence: str
    reason: str
    why: str
    rung: str
    since: datetime | None
    closed: datetime | None


def view(scene: Scene, params: Mapping[str, str]) -> dict[str, Sequence[PagePart]]:
    show = params.get("show", "open")
    rows = [row_of(scene, job) for job in scene.jobs.values() if _shows(job, show)]
    rows = [row for row in rows if _fits(row, params)]
    rows.sort(key=place)
    what = {"open": "open", "person": "waiting for a person", "held": "held"}.get(show, "closed")
    many = len(rows)
    sentence = f"{many or 'No'} {'job' if many == 1 else 'jobs'} {what}."
    if many > MOST:
        sentence += f" The first {MOST} are shown: narrow it down."
    return {"found": [Summary(sentence, not many, "found")], "jobs": rows[:MOST]}


def _shows(job: ObservedJob, show: str) -> bool:
    match show:
        case "closed":
            return not job.open
        case "person":
            return waits_for_person(job)
        case "held":
            return of_job(job) is NodeDisplayState.ON_HOLD
        case _:
            return job.open


def _fits(row: JobRow, params: Mapping[str, str]) -> bool:
    fields = {"reason": row.reason, "zone": row.zone, "rule": row.rule}
    text = params.get("q", "").strip().casefold()
    searched = (row.node, row.key, row.rule, row.fault, row.evidence, row.why)
    return all(params.get(name, "") in ("", value) for name, value in fields.items()) and any(
        text in each.casefold() for each in searched
    )


_ORDER = [
    NodeDisplayState.PERSON.value,
    NodeDisplayState.ON_HOLD.value,
    NodeDisplayState.REPAIRING.value,
    "",
]


def place(row: JobRow) -> tuple[int, bool, float, str]:
    """Return the sort key: open jobs by urgency, those that need a person to repair first, then the
    oldest first; then closed ones, the latest first.
    """
    at = row.closed or row.since
    seconds = at.timestamp() if at else 0.0
    approval = row.phase != JobPhase.NEEDS_HUMAN
    return _ORDER.index(row.state), approval, -seconds if row.closed else seconds, row.key


def row_of(scene: Scene, job: ObservedJob) -> JobRow:
    state = of_job(job) if job.open else None
    node = scene.nodes.get(job.spec.node_name)
    hold = job.status.hold
    return JobRow(
        key=job.metadata.name,
        node=job.spec.node_name,
        zone=node.metadata.labels.get(ZONE, "") if node else "",
        state=state.value if state else "",
        phase=job.status.phase or JobPhase.PENDING,
        rule=job.spec.remedier.name,
        severity=job.spec.severity,
        fault=describe_fault(job.spec.fault_class),
        evidence=job.spec.trigger.summary,
        reason=hold.reason if hold and job.open else "",
        why=(hold.message if hold and job.open else "") or job.status.message,
        rung=rung_of(job),
        since=job.metadata.creation_timestamp,
        closed=job.status.timeline.closed if not job.open else None,
    )


def rung_of(job: ObservedJob) -> str:
    """Return the name and position of the current rung, "" without a ladder."""
    ladder = job.spec.ladder
    if not ladder:
        return ""
    at = min(job.status.rung, len(ladder) - 1)
    return f"{ladder[at].name} ({at + 1} of {len(ladder)})"


def choices(scene: Scene) -> dict[str, list[str]]:
    """Return the values of the filters."""
    rows = [row_of(scene, job) for job in scene.jobs.values()]
    return {
        "reason": sorted({row.reason for row in rows if row.reason}),
        "zone": sorted({row.zone for row in rows if row.zone}),
        "rule": sorted({row.rule for row in rows if row.rule}),
    }
