"""Rules: which are loaded, which match now, and the outcomes of their jobs. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from defender.dashboard.rule import RuleView
from defender.dashboard.scene import Scene
from defender.decision.jobs import ObservedJob
from defender.overview.evidence import describe_evidence, describe_fault
from defender.overview.situation import waits_for_person
from kubenode.runtime.site.parts import PagePart, Summary

SHOWS = {
    "active": "Matching, with jobs, in trouble",
    "person": "With jobs that wait for a person",
    "all": "All",
}
FILTERS = ("show", "q", "mode")
MODES = ("Enforce", "Approve", "DryRun", "Off", "Infer")
TROUBLED = ("Rejected", "Quarantined")
MOST = 1000


@dataclass(frozen=True, slots=True)
class RuleRow:
    """One rule.

    fault, evidence: its fault and its evidence in words, "" if they cannot be read.
    people: number of its jobs that wait for a person.
    """

    template: ClassVar[str] = "parts/rule.html"
    key: str
    fault: str
    evidence: str
    people: int
    mode: str
    phase: str
    severity: str
    matching: int | None
    open_jobs: int
    held: int
    succeeded: int
    failed: int
    needs_human: int
    relapsed: int
    last_match: datetime | None
    trouble: str

    @property
    def stirs(self) -> bool:
        return bool(self.trouble or self.matching or self.open_jobs or self.counted)

    @property
    def counted(self) -> int:
        return self.succeeded + self.failed + self.needs_human + self.relapsed


def view(scene: Scene, params: Mapping[str, str]) -> dict[str, Sequence[PagePart]]:
    open_jobs: dict[str, list[ObservedJob]] = {}
    for jobs in scene.open_jobs.values():
        for job in jobs.values():
            open_jobs.setdefault(job.spec.remedier.name, []).append(job)
    rows = [row_of(rule, open_jobs.get(rule.metadata.name, [])) for rule in scene.rules.values()]
    shown = [row for row in rows if _shows(row, params.get("show", "")) and _fits(row, params)]
    shown.sort(key=_place)
    matching = sum(bool(row.matching) for row in rows)
    trouble = sum(bool(row.trouble) for row in rows)
    sentence = f"{len(rows)} rules, {matching} of them {'matches' if matching == 1 else 'match'}"
    sentence += f" now, {trouble} in trouble." if trouble else " now."
    return {"found": [Summary(sentence, not trouble, "found")], "rules": shown[:MOST]}


def _shows(row: RuleRow, show: str) -> bool:
    match show:
        case "all":
            return True
        case "person":
            return bool(row.people)
        case _:
            return row.stirs


def _fits(row: RuleRow, params: Mapping[str, str]) -> bool:
    text = params.get("q", "").strip().casefold()
    searched = (row.key, row.fault, row.evidence, row.trouble)
    return params.get("mode", "") in ("", row.mode) and any(
        text in each.casefold() for each in searched
    )


def _place(row: RuleRow) -> tuple[int, bool, int, int, int, str]:
    """Return the sort key: rules with jobs that wait for a person first, then those in trouble."""
    return (
        -row.people, not row.trouble, -row.open_jobs, -(row.matching or 0), -row.counted, row.key,
    )  # fmt: skip


def row_of(rule: RuleView, jobs: Sequence[ObservedJob]) -> RuleRow:
    """Return the row of a rule. jobs: its open jobs."""
    status, counts = rule.status, rule.status.jobs
    return RuleRow(
        key=rule.metadata.name,
        fault=describe_fault(rule.spec.fault_class),
        evidence=describe_evidence(rule.spec.when),
        people=sum(map(waits_for_person, jobs)),
        mode="Infer" if rule.spec.infer is not None else rule.spec.mode,
        phase=status.phase or "Unknown",
        severity=rule.spec.severity or "Warning",
        matching=status.matching,
        open_jobs=len(jobs),
        held=sum(job.status.hold is not None for job in jobs),
        succeeded=counts.succeeded,
        failed=counts.failed,
        needs_human=counts.needs_human,
        relapsed=counts.relapsed,
        last_match=status.last_match_time,
        trouble=_trouble(rule) if status.phase in TROUBLED else "",
    )


def _trouble(rule: RuleView) -> str:
    bad = [c for c in rule.status.conditions if c.status == "False" and c.message]
    return bad[0].message if bad else f"is {rule.status.phase}"
