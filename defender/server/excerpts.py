"""Excerpts of the diagnostics that jobs collected on one node, read for its page.

The jobs in memory have no output of steps, which can be long. The latest jobs are read again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from defender.decision.jobs import JobStep, ObservedJob
from kubenode.api.v1alpha1.remedyoperationjob import EXCERPT, StepState
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import KubeError, NotFound
from kubenode.runtime.kube.objects import structs

COLLECT = "collect"
MOST_JOBS = 3
MOST_LINES, LONGEST_LINE = 40, 300
SECONDS = 3.0
EARLIEST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class CollectedExcerpt:
    """What a step `collect` found. place: where the bundle is, as the agent says."""

    job: str
    at: datetime | None
    place: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeExcerpts:
    """The excerpts of a node, the latest first. problem: why they are not known, "" if they are."""

    rows: tuple[CollectedExcerpt, ...] = ()
    problem: str = ""


class CollectRecord(msgspec.Struct, rename="camel"):
    name: str = ""
    state: str = ""
    finished_at: datetime | None = None
    output: dict[str, str] = {}


class CollectRecords(msgspec.Struct):
    steps: list[CollectRecord] = []


class CollectJob(msgspec.Struct):
    status: CollectRecords = msgspec.field(default_factory=CollectRecords)


async def read_excerpts(kube: Kube, jobs: Iterable[ObservedJob]) -> NodeExcerpts:
    """Read the excerpts of the latest of `jobs`. An error becomes the problem of the result."""
    rows: list[CollectedExcerpt] = []
    for name in latest_collecting(jobs):
        path = paths.custom("remedyoperationjobs", name)
        try:
            job = await kube.call(
                "GET", path, decode=structs(CollectJob), timeout=SECONDS, attempts=1
            )
        except NotFound:
            continue
        except KubeError as error:
            return NodeExcerpts(problem=f"the API server did not answer: {error.message or error}")
        rows += list_excerpts(name, job.status.steps)
    return NodeExcerpts(tuple(rows))


def latest_collecting(jobs: Iterable[ObservedJob]) -> list[str]:
    """Return the names of the latest jobs that collected diagnostics, the last first. Pure."""
    collected = {
        job.metadata.name: max(
            step.finished_at or EARLIEST for step in job.status.steps if _collected(step)
        )
        for job in jobs
        if any(map(_collected, job.status.steps))
    }
    return sorted(collected, key=lambda name: (collected[name], name), reverse=True)[:MOST_JOBS]


def list_excerpts(job: str, steps: Sequence[CollectRecord]) -> list[CollectedExcerpt]:
    """Return the excerpts of a job, the last first. Pure."""
    return [
        CollectedExcerpt(
            job,
            step.finished_at,
            _printable(step.output.get("text", "")),
            tuple(map(_printable, step.output.get(EXCERPT, "").splitlines()[:MOST_LINES])),
        )
        for step in reversed(steps)
        if _collected(step)
    ]


def _collected(step: CollectRecord | JobStep) -> bool:
    return step.name == COLLECT and step.state == StepState.DONE


def _printable(text: str) -> str:
    """Replace what is no text, such as control characters, which a host may write."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text[:LONGEST_LINE])
