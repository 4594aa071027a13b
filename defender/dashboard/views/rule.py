"""One rule: its fault in words, its evidence and ladder, and its jobs. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from defender.dashboard.scene import Scene
from defender.dashboard.views import jobs
from defender.dashboard.views.rules import RuleRow, row_of
from defender.overview.evidence import describe_evidence, describe_rung
from kubenode.runtime.site.parts import PagePart

MOST_JOBS = 20


@dataclass(frozen=True, slots=True)
class RuleHead:
    """Head of a rule's page.

    guard: the guard in words, "" for none.
    rungs: (name, steps) of the ladder, mildest first.
    """

    template: ClassVar[str] = "parts/rule_head.html"
    row: RuleRow
    guard: str
    rungs: tuple[tuple[str, str], ...]
    key: str = "rule"


def view(scene: Scene, name: str) -> dict[str, Sequence[PagePart]] | None:
    """Return the view, None if there is no such rule."""
    rule = scene.rules.get(name)
    if rule is None:
        return None
    mine = [job for job in scene.jobs.values() if job.spec.remedier.name == name]
    head = RuleHead(
        row_of(rule, [job for job in mine if job.open]),
        describe_evidence(rule.spec.unless),
        tuple((str(rung.get("name", "")), describe_rung(rung)) for rung in rule.spec.ladder),
    )
    rows = sorted((jobs.row_of(scene, job) for job in mine), key=jobs.place)
    return {"rule": [head], "jobs": rows[:MOST_JOBS]}
