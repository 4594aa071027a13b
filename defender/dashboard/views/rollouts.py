"""Rollouts of component sets: versions, batch, and why a set has stopped. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from defender.dashboard.rollout import SetRollout
from defender.dashboard.scene import Scene
from defender.overview.notices import has_stopped, stop_reason
from kubenode.runtime.site.parts import PagePart, Summary

MOST, MOST_NAMED = 1000, 10
AT_WORK = ("Staging", "Updating", "Inspecting", "Baking", "RollingBack")


@dataclass(frozen=True, slots=True)
class RolloutRow:
    """One set.

    share: percentage of its machines at the update revision.
    versions: such as `2.1.4: 16, 2.1.3: 396 (2 not ready)`.
    stopped: whether a person must act.
    """

    template: ClassVar[str] = "parts/rollout.html"
    key: str
    component: str
    phase: str
    batch: str
    since: datetime | None
    bakes_until: datetime | None
    machines: int
    updated: int
    share: float
    unavailable: int
    held: int
    excluded: int
    versions: str
    reason: str
    why: str
    failed: tuple[str, ...]
    more_failed: int
    stopped: bool


def view(scene: Scene, params: Mapping[str, str]) -> dict[str, Sequence[PagePart]]:
    rows = [row_of(rollout) for rollout in scene.rollouts.values()]
    rows.sort(key=lambda row: (not row.stopped, row.phase not in AT_WORK, row.key))
    at_work = sum(row.phase in AT_WORK for row in rows)
    stopped = sum(row.stopped for row in rows)
    sentence = f"{len(rows)} component {'set' if len(rows) == 1 else 'sets'}, {at_work} at work"
    sentence += f", {stopped} stopped." if stopped else "."
    if not scene.rollouts_read:
        sentence = "What runs on the machines is not read yet."
    return {"found": [Summary(sentence, not stopped, "found")], "rollouts": rows[:MOST]}


def row_of(rollout: SetRollout) -> RolloutRow:
    status, counts, batch = rollout.status, rollout.status.counts, rollout.status.batch
    reason, why = stop_reason(rollout)
    failed = () if batch is None else batch.failed
    started = batch is not None and batch.index > 0
    return RolloutRow(
        key=rollout.metadata.name,
        component=rollout.spec.component,
        phase=status.phase or "Unknown",
        batch=f"{batch.index}, of {batch.size}" if started and batch is not None else "",
        since=None if batch is None else batch.started_at,
        bakes_until=batch.bake_until if batch is not None and status.phase == "Baking" else None,
        machines=counts.machines,
        updated=counts.updated,
        share=round(100 * counts.updated / counts.machines, 1) if counts.machines else 0.0,
        unavailable=counts.unavailable,
        held=counts.held,
        excluded=counts.excluded,
        versions=", ".join(
            f"{v.version}: {v.ready + v.unready}"
            + (f" ({v.unready} not ready)" if v.unready else "")
            for v in status.versions
        ),
        reason=reason,
        why=why,
        failed=failed[:MOST_NAMED],
        more_failed=max(0, len(failed) - MOST_NAMED),
        stopped=has_stopped(rollout),
    )
