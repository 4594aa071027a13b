"""`kubenode job list` and `kubenode job show`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import typer

from kubenode.api.step_text import would_have
from kubenode.api.v1alpha1 import NodeRecord, RemedyOperationJob
from kubenode.api.v1alpha1.noderecord import DryRunResults
from kubenode.api.v1alpha1.remedyoperationjob import JobPhase
from kubenode.cli.cluster import connected, require_crds
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.job_access import PLURAL, read_job, refusals
from kubenode.cli.lengths import length
from kubenode.cli.options import Listing
from kubenode.cli.tables import echo_data, object_name, show
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import NotFound

RECORDS = NodeRecord.resource.plural
KIND = RemedyOperationJob.resource.kind
COLUMNS = {
    "NAME": "name",
    "NODE": "node",
    "RULE": "rule",
    "PHASE": "phase",
    "RUNG": "rung",
    "HOLD": "hold",
    "AGE": "age",
}
WIDE = {"MESSAGE": "message", "WHY": "why"}
FIRST = {JobPhase.NEEDS_HUMAN: 0, JobPhase.AWAITING_APPROVAL: 1}
"""Phases in which a job waits for a person, with their rank: first in the list."""
OPEN_RANK, CLOSED_RANK = 2, 3


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs are listed.

    node: "" for all nodes.
    phases: empty for all phases.
    only_open: leave out jobs that are over.
    """

    node: str = ""
    phases: Sequence[JobPhase] = ()
    only_open: bool = False

    @property
    def field_selector(self) -> str | None:
        return f"spec.nodeName={self.node}" if self.node else None

    def accepts(self, job: RemedyOperationJob) -> bool:
        phase = job.status.phase
        return (not self.phases or phase in self.phases) and not (self.only_open and phase.closed)


def job_filter(node: str, phases: Sequence[str], *, only_open: bool) -> JobFilter:
    """Build a filter from a person's input. Raises Refusal for an unknown phase."""
    return JobFilter(node, [_phase(text) for text in phases], only_open)


async def list_jobs(
    kubeconfig: str | None,
    context: str | None,
    selection: JobFilter,
    output: Listing,
    *,
    watch: bool = False,
) -> Exit:
    """Print the jobs. With `watch` go on with each change, until interrupted."""
    async with connected(kubeconfig, context) as kube:
        await require_crds(kube)
        with refusals("list", ""):
            query = {"fieldSelector": selection.field_selector}
            answer: Mapping[str, Any] = await kube.get(paths.custom(PLURAL), query=query)
            if watch:
                from kubenode.cli.job_watch import watch_jobs  # it imports this module

                await watch_jobs(kube, selection, output)
            records = await _records(kube, selection.node)
        now = kube.clock.now()
    jobs = [RemedyOperationJob.model_validate(item, extra="ignore") for item in answer["items"]]
    rows = [row(job, now) for job in sorted(filter(selection.accepts, jobs), key=order)]
    if not selection.only_open and (not selection.phases or JobPhase.SHADOWED in selection.phases):
        rows += dry_runs(records, now)
    if not rows and output in (Listing.TABLE, Listing.WIDE):
        typer.echo("no jobs")
        return Exit.FINE
    show(rows, COLUMNS, WIDE, output, KIND)
    return Exit.FINE


async def _records(kube: Kube, node: str) -> list[NodeRecord]:
    """Return the record of `node`, or of all nodes for "".

    Returns [] if there is none, or if an earlier version installed no such kind.
    """
    try:
        if node:
            items = [await kube.get(paths.custom(RECORDS, node))]
        else:
            items = (await kube.get(paths.custom(RECORDS)))["items"]
    except NotFound:
        return []
    return [NodeRecord.model_validate(item, extra="ignore") for item in items]


def dry_runs(records: Sequence[NodeRecord], now: datetime) -> list[dict[str, Any]]:
    """Return a row for each node and rule in mode DryRun, the newest first.

    Dry runs have no job. Pure.
    """
    recent_runs = [
        (record, run) for record in records for run in record.spec.dry_runs if run.recent
    ]
    recent_runs.sort(key=lambda pair: pair[1].recent[-1].at, reverse=True)
    return [_dry_run(record.metadata.name, run, now) for record, run in recent_runs]


def _dry_run(node: str, run: DryRunResults, now: datetime) -> dict[str, Any]:
    last = run.recent[-1]
    times = "once" if run.count == 1 else f"{run.count} times"
    return {
        "name": "",
        "node": node,
        "rule": run.remedier,
        "phase": str(JobPhase.SHADOWED),
        "rung": last.rung,
        "hold": "",
        "age": length(now - last.at),
        "message": f"would have begun {times}; the last time: {would_have(last.steps, last.said)}",
        "why": "",
    }


def _phase(text: str) -> JobPhase:
    by_name = {phase.lower(): phase for phase in JobPhase}
    if (job_phase := by_name.get(text.lower())) is None:
        there = ", ".join(JobPhase)
        raise Refusal(f"--phase: there is no phase {text}; there are: {there}", Exit.USAGE)
    return job_phase


def order(job: RemedyOperationJob) -> tuple[int, float, str]:
    """Sort key: jobs that need a person, that wait for approval, other open jobs, closed jobs.

    Within a group the newest comes first.
    """
    phase, created = job.status.phase, job.metadata.creation_timestamp
    rank = FIRST.get(phase, CLOSED_RANK if phase.closed else OPEN_RANK)
    return rank, -created.timestamp() if created is not None else 0.0, job.metadata.name


def row(job: RemedyOperationJob, now: datetime) -> dict[str, Any]:
    status, created = job.status, job.metadata.creation_timestamp
    ladder = job.spec.ladder
    rung = ladder[status.rung].name if status.rung < len(ladder) else str(status.rung)
    hold = status.hold
    return {
        "name": job.metadata.name,
        "node": job.spec.node_name,
        "rule": job.spec.remedier.name if job.spec.remedier is not None else "",
        "phase": str(status.phase),
        "rung": rung,
        "hold": hold.reason if hold is not None else "",
        "age": length(now - created) if created is not None else "",
        "message": status.message,
        "why": hold.message if hold is not None else "",
    }


async def show_job(kubeconfig: str | None, context: str | None, name: str, output: Listing) -> Exit:
    """Print the object as stored, as YAML or JSON, or its name."""
    async with connected(kubeconfig, context) as kube:
        await require_crds(kube)
        job = await read_job(kube, name)
    job["metadata"].pop("managedFields", None)
    if output is Listing.NAME:
        typer.echo(object_name(RemedyOperationJob.resource.kind, name))
    else:
        echo_data(job, as_json=output is Listing.JSON)
    return Exit.FINE
