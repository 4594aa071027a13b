"""`kubenode job list` and `kubenode job show`."""

import json
from collections.abc import Mapping, Sequence
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
from kubenode.cli.tables import as_yaml, show
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import NotFound

RECORDS = NodeRecord.resource.plural
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
FIRST = (JobPhase.NEEDS_HUMAN, JobPhase.AWAITING_APPROVAL)
"""Phases in which a job waits for a person: first in the list."""


async def list_jobs(
    kubeconfig: str | None,
    context: str | None,
    node: str,
    phases: Sequence[str],
    only_open: bool,
    output: Listing,
) -> Exit:
    wanted = [_phase(text) for text in phases]
    async with connected(kubeconfig, context) as kube:
        await require_crds(kube)
        with refusals("list", ""):
            query = {"fieldSelector": f"spec.nodeName={node}"} if node else None
            answer: Mapping[str, Any] = await kube.get(paths.custom(PLURAL), query=query)
            records = await _records(kube, node)
        now = kube.clock.now()
    jobs = [RemedyOperationJob.model_validate(item, extra="ignore") for item in answer["items"]]
    jobs = [job for job in jobs if not wanted or job.status.phase in wanted]
    jobs = [job for job in jobs if not only_open or not job.status.phase.closed]
    rows = [_row(job, now) for job in sorted(jobs, key=_order)]
    if not only_open and (not wanted or JobPhase.SHADOWED in wanted):
        rows += dry_runs(records, now)
    if not rows and output in (Listing.TABLE, Listing.WIDE):
        typer.echo("no jobs")
        return Exit.FINE
    show(rows, COLUMNS, WIDE, output)
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


def _order(job: RemedyOperationJob) -> tuple[int, float, str]:
    """Sort key: jobs that wait for a person, other open jobs, closed jobs; newest first."""
    phase, created = job.status.phase, job.metadata.creation_timestamp
    rank = 0 if phase in FIRST else 2 if phase.closed else 1
    return rank, -created.timestamp() if created is not None else 0.0, job.metadata.name


def _row(job: RemedyOperationJob, now: datetime) -> dict[str, Any]:
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
    """Print the object as stored, as YAML or JSON."""
    async with connected(kubeconfig, context) as kube:
        await require_crds(kube)
        job = await read_job(kube, name)
    job["metadata"].pop("managedFields", None)
    if output is Listing.JSON:
        typer.echo(json.dumps(job, indent=2, ensure_ascii=False))
    else:
        typer.echo(as_yaml(job), nl=False)
    return Exit.FINE
