"""`kubenode explain job NAME`: the story of a job, and what a person can do now."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import typer

from kubenode.api.v1alpha1 import RemedyOperationJob
from kubenode.cli.cluster import connected, require_crds
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.job_access import read_job
from kubenode.cli.job_moments import Beside, JobEventSummary
from kubenode.cli.job_story import JobStory, story
from kubenode.cli.job_story_text import text
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Forbidden, NotFound
from kubenode.runtime.kube.objects import Node, structs

LONGEST_LINE = 64 * 1024
ROTATED = 9
"""Rotated audit files that are read before FILE itself: FILE.9 to FILE.1."""


async def explain_job(
    name: str, kubeconfig: str | None, context: str | None, audit: Path | None, as_json: bool
) -> Exit:
    lines = list(audit_lines(audit, name)) if audit is not None else None
    async with connected(kubeconfig, context) as kube:
        await require_crds(kube)
        job_story = await read_story(kube, name, lines)
    if as_json:
        typer.echo(json.dumps(job_story.to_json(), indent=2, ensure_ascii=False))
    else:
        for line in text(job_story):
            typer.echo(line)
    return Exit.FINE


async def read_story(
    kube: Kube, name: str, audit: list[Mapping[str, Any]] | None = None
) -> JobStory:
    """Read a job with its Events and node. Raises Refusal if the job does not exist.

    audit: lines of the audit log about the job; None if no log is given.
    """
    raw = await read_job(kube, name)
    job = RemedyOperationJob.model_validate(raw, extra="ignore")
    beside = Beside(await _events(kube, job), audit)
    return story(job, raw, beside, await _node(kube, job.spec.node_name), kube.clock.now())


async def _node(kube: Kube, name: str) -> Node | None:
    try:
        node: Node = await kube.get(paths.node(name), structs(Node))
        return node
    except (NotFound, Forbidden):
        return None


async def _events(kube: Kube, job: RemedyOperationJob) -> list[JobEventSummary]:
    """Return the Events of the job; [] if the caller may not read them: the job itself has most
    facts.
    """
    uid = job.metadata.uid
    query = {"fieldSelector": f"involvedObject.uid={uid}"}
    try:
        answer = await kube.get(paths.events("default"), query=query)
    except (NotFound, Forbidden):
        return []
    summaries = []
    for item in answer["items"]:
        times = [item.get(key) for key in ("firstTimestamp", "lastTimestamp")]
        first, last = (datetime.fromisoformat(at) if at else None for at in times)
        if first is None:
            continue
        message, count = item.get("message", ""), item.get("count") or 1
        summaries.append(
            JobEventSummary(item.get("reason", ""), message, first, last or first, count)
        )
    return summaries


def audit_lines(path: Path, job: str) -> Iterator[Mapping[str, Any]]:
    """Yield the audit lines about `job`, oldest first, of the file and its rotated predecessors.

    Lines that are not audit lines are skipped: standard output may have other content.
    Raises Refusal.
    """
    older = [path.with_name(f"{path.name}.{n}") for n in range(ROTATED, 0, -1)]
    needle = json.dumps(job).encode()
    for each in [*(file for file in older if file.exists()), path]:
        try:
            with each.open("rb") as file:
                while raw := file.readline(LONGEST_LINE):
                    if needle in raw and (line := _line(raw)).get("job") == job:
                        yield line
        except OSError as error:
            raise Refusal(
                f"--audit: {each} cannot be read: {error.strerror}", Exit.USAGE
            ) from error


def _line(raw: bytes) -> Mapping[str, Any]:
    try:
        entry = json.loads(raw)
    except ValueError:
        return {}
    ours = isinstance(entry, dict) and str(entry.get("audit", "")).startswith("kubenode.io/audit/")
    return entry if ours else {}
