"""Pauses, and recent acts of people in this dashboard. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from defender.dashboard.scene import Scene
from defender.decision.pauses import is_expired, scope_of
from kubenode.api.v1alpha1.defenderpolicy import Pause
from kubenode.runtime.site.parts import PagePart, Summary


@dataclass(frozen=True, slots=True)
class PauseRow:
    """One pause. policies: those that have it; `holds`: jobs that it holds now."""

    template: ClassVar[str] = "parts/pause.html"
    key: str
    policies: tuple[str, ...]
    until: datetime | None
    by: str
    why: str
    now: bool
    holds: int


@dataclass(frozen=True, slots=True)
class OperatorAction:
    """One act of a person in this dashboard. `result` is its outcome."""

    template: ClassVar[str] = "parts/did.html"
    key: str
    at: datetime
    who: str
    what: str
    result: str


def view(scene: Scene, acts: Iterable[OperatorAction] = ()) -> dict[str, Sequence[PagePart]]:
    rows = paused(scene)
    sentence = f"Paused: {', '.join(row.key for row in rows)}." if rows else "Nothing is paused."
    return {"summary": [Summary(sentence, not rows)], "pauses": rows, "acts": list(acts)}


def paused(scene: Scene) -> list[PauseRow]:
    """Return what is paused now, each scope once for all policies."""
    by_scope: dict[str, list[tuple[str, Pause]]] = {}
    for policy in sorted(scene.control.policies, key=lambda policy: policy.name):
        for pause in policy.spec.pauses if policy.spec else ():
            if not is_expired(pause, scene.now):
                by_scope.setdefault(str(scope_of(pause)), []).append((policy.name, pause))
    hold_counts = _count_holds(scene)
    return [
        _row(scope, each, hold_counts.get(scope, 0)) for scope, each in sorted(by_scope.items())
    ]


def _row(scope: str, pauses: list[tuple[str, Pause]], holds: int) -> PauseRow:
    names = tuple(name for name, _ in pauses)
    longest = max(
        (pause for _, pause in pauses),
        key=lambda p: (p.until is None, p.until.timestamp() if p.until else 0.0),
    )
    sharp = any(pause.now for _, pause in pauses)
    return PauseRow(scope, names, longest.until, longest.by, longest.why, sharp, holds)


def _count_holds(scene: Scene) -> dict[str, int]:
    counts: dict[str, int] = {}
    for jobs in scene.open_jobs.values():
        for job in jobs.values():
            hold = job.status.hold
            if hold is not None and hold.reason == "Paused":
                counts[hold.scope] = counts.get(hold.scope, 0) + 1
    return counts
