"""Compares the jobs that two rule sets would have made. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import Mode
from simulation.replay.records import JobRecord

SAME_FAULT = timedelta(minutes=30)
"""Jobs of one node that begin further apart belong to different faults."""


@dataclass(frozen=True, slots=True)
class Change:
    """A difference between the jobs of the rules and those of the rules compared with.

    job: the job of the rules; None if there is none.
    other: the job of the other rules; None if there is none.
    how: the differences of two jobs that belong together, as text.
    """

    kind: Literal["only", "onlyAgainst", "differs"]
    job: JobRecord | None
    other: JobRecord | None
    how: tuple[str, ...] = ()

    @property
    def node(self) -> str:
        job = self.job or self.other
        assert job is not None
        return job.node

    def lines(self) -> Iterator[str]:
        if self.job is not None:
            yield f"{'~' if self.other is not None else '+'} {_format_job(self.job)}"
        if self.other is not None and self.job is None:
            yield f"- {_format_job(self.other)}"
        for line in self.how:
            yield f"    {line}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "node": self.node,
            "job": self.job.to_dict() if self.job is not None else None,
            "against": self.other.to_dict() if self.other is not None else None,
            "how": list(self.how),
        }


def changes(jobs: Sequence[JobRecord], other: Sequence[JobRecord]) -> list[Change]:
    """Return the differences in order of time.

    Jobs of one node that are made within SAME_FAULT belong together.
    """
    differences = []
    for key in dict.fromkeys(_track(job) for job in (*jobs, *other)):
        mine = [job for job in jobs if _track(job) == key]
        differences += list(_of_track(mine, [job for job in other if _track(job) == key]))
    return sorted(differences, key=lambda c: (_made(c), c.node))


def _of_track(jobs: list[JobRecord], other: list[JobRecord]) -> Iterator[Change]:
    remaining = list(other)
    for job in jobs:
        near = min(remaining, key=lambda o: abs(o.made - job.made), default=None)
        if near is None or abs(near.made - job.made) > SAME_FAULT:
            yield Change("only", job, None)
            continue
        remaining.remove(near)
        if how := tuple(_differ(job, near)):
            yield Change("differs", job, near, how)
    yield from (Change("onlyAgainst", None, job) for job in remaining)


def _track(job: JobRecord) -> tuple[str, str]:
    """Return the key of jobs that are compared. Dry runs are compared for each rule."""
    return job.node, job.remedier if job.mode is Mode.DRY_RUN else ""


def _differ(job: JobRecord, other: JobRecord) -> Iterator[str]:
    pairs = {
        "rule": (job.remedier, other.remedier),
        "made": (format_time(job.made), format_time(other.made)),
        "first rung": (_first(job), _first(other)),
        "rungs": (_rungs(job), _rungs(other)),
        "steps": (_steps(job), _steps(other)),
        "end": (job.phase.value, other.phase.value),
        "held by": (_holds(job), _holds(other)),
    }
    for name, (a, b) in pairs.items():
        if a != b:
            yield f"{name}: {a}, against {b}"


def _first(job: JobRecord) -> str:
    return job.ladder[job.start_rung].name


def _rungs(job: JobRecord) -> str:
    return ", ".join(rung.name for rung in job.rungs) or "none"


def _steps(job: JobRecord) -> str:
    return ", ".join(step.name for step in job.steps) or "none"


def _holds(job: JobRecord) -> str:
    return ", ".join(sorted({hold.reason for hold in job.holds})) or "nothing"


def _made(change: Change) -> Any:
    job = change.job or change.other
    assert job is not None
    return job.made


def _format_job(job: JobRecord) -> str:
    return f"{format_time(job.made)}  {job.node}  {job.remedier}: {_rungs(job)}: {job.phase.value}"
