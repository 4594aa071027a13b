"""Rules: which are loaded, which match now, and the outcomes of their jobs. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from defender.dashboard.render import PagePart
from defender.dashboard.rule import RuleView
from defender.dashboard.scene import Scene
from defender.dashboard.views.summary import Summary

SHOWS = {"active": "Matching, with jobs, in trouble", "all": "All"}
TROUBLED = ("Rejected", "Quarantined")
MOST = 1000


@dataclass(frozen=True, slots=True)
class RuleRow:
    template: ClassVar[str] = "parts/rule.html"
    key: str
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
    open_jobs: dict[str, list[bool]] = {}
    for jobs in scene.open_jobs.values():
        for job in jobs.values():
            waiting = job.status.hold is not None
            open_jobs.setdefault(job.spec.remedier.name, []).append(waiting)
    rows = [_row(rule, open_jobs.get(rule.metadata.name, [])) for rule in scene.rules.values()]
    stirring = [row for row in rows if row.stirs]
    shown = rows if params.get("show") == "all" else stirring
    shown.sort(key=lambda r: (not r.trouble, -r.open_jobs, -(r.matching or 0), -r.counted, r.key))
    matching = sum(bool(row.matching) for row in rows)
    trouble = sum(bool(row.trouble) for row in rows)
    sentence = f"{len(rows)} rules, {matching} of them {'matches' if matching == 1 else 'match'}"
    sentence += f" now, {trouble} in trouble." if trouble else " now."
    return {"found": [Summary(sentence, not trouble, "found")], "rules": shown[:MOST]}


def _row(rule: RuleView, jobs: list[bool]) -> RuleRow:
    status, counts = rule.status, rule.status.jobs
    return RuleRow(
        key=rule.metadata.name,
        mode="Infer" if rule.spec.infer is not None else rule.spec.mode,
        phase=status.phase or "Unknown",
        severity=rule.spec.severity or "Warning",
        matching=status.matching,
        open_jobs=len(jobs),
        held=sum(jobs),
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
