"""Repairs over time, from stored jobs and records. Pure.

Intervals without a job count zero. Jobs are deleted 72 h after their end by default, so a longer
window would report too little.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from defender.decision.jobs import ObservedJob
from defender.overview.records import WouldHaveView
from kubenode.api.v1alpha1.remedyoperationjob import JobPhase
from kubenode.runtime.site.window import PlotWindow


@dataclass(frozen=True, slots=True)
class RepairSeries:
    """One value for each interval.

    begun: jobs by the time at which their fault began.
    dry_runs: faults for which a rule in DryRun would have begun a repair.
    healed, failed: jobs by the time and result of their end.
    typical, slow: median and 90th percentile of the seconds from fault to healing, of the jobs
        that healed in the interval; None without one.
    """

    begun: tuple[int, ...]
    dry_runs: tuple[int, ...]
    healed: tuple[int, ...]
    failed: tuple[int, ...]
    typical: tuple[float | None, ...]
    slow: tuple[float | None, ...]


def collect_repairs(
    jobs: Iterable[ObservedJob], dry_runs: Iterable[WouldHaveView], window: PlotWindow
) -> RepairSeries:
    """Sort jobs and dry runs into the intervals of the window."""
    real = [job for job in jobs if job.acts]
    heals = [list[float]() for _ in range(window.intervals)]
    for index, seconds in _heals(real, window):
        heals[index].append(seconds)
    times = [sorted(each) for each in heals]
    return RepairSeries(
        begun=_count((fault_began(job) for job in real), window),
        dry_runs=_count((run.first_true or run.at for run in dry_runs), window),
        healed=tuple(len(each) for each in times),
        failed=_count((closed_at(job) for job in real if is_failure(job)), window),
        typical=tuple(percentile(each, 50) for each in times),
        slow=tuple(percentile(each, 90) for each in times),
    )


def _heals(jobs: Iterable[ObservedJob], window: PlotWindow) -> Iterator[tuple[int, float]]:
    """Yield the interval in which each job healed its node, and how many seconds that took."""
    for job in jobs:
        end, began = healed_at(job), fault_began(job)
        index = window.place(end)
        if index is not None and end is not None and began is not None:
            yield index, max(0.0, (end - began).total_seconds())


def _count(times: Iterable[datetime | None], window: PlotWindow) -> tuple[int, ...]:
    counts = [0] * window.intervals
    for at in times:
        index = window.place(at)
        if index is not None:
            counts[index] += 1
    return tuple(counts)


def fault_began(job: ObservedJob) -> datetime | None:
    """Return when the fault of the job began, as far as the job knows."""
    reported = job.status.timeline.fault_seen or job.spec.trigger.first_true
    return reported or job.metadata.creation_timestamp


def closed_at(job: ObservedJob) -> datetime | None:
    return None if job.open else job.status.timeline.closed


def healed_at(job: ObservedJob) -> datetime | None:
    """Return when the repair was proved, None if the job has not healed its node."""
    if job.status.phase != JobPhase.SUCCEEDED:
        return None
    return job.status.timeline.verified or job.status.timeline.closed


def is_failure(job: ObservedJob) -> bool:
    return job.status.phase == JobPhase.FAILED


def percentile(ordered: Sequence[float], percent: int) -> float | None:
    """Return the smallest value that `percent` of the values do not exceed; None without values.

    ordered: the values in ascending order.
    """
    if not ordered:
        return None
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]
