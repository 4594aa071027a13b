"""`kubenode rules replay`: shows the jobs and holds of rules in a recording."""

import contextlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import typer

from kubenode.api.duration import format_duration
from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import DefenderPolicy, NodeRemedier
from kubenode.cli.engine import engines
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.library import rules_from
from kubenode.cli.policy_files import policies_from
from remedy.remedier.decide import WaitReason
from simulation.replay.comparison import Change, changes
from simulation.replay.recordings import Timed, entries
from simulation.replay.records import JobRecord
from simulation.replay.spans import Span
from simulation.replay.timeline import Wrong
from simulation.replay.world import START, World

SECOND = timedelta(seconds=1)


def command(
    recordings: Sequence[str],
    *,
    rules: Sequence[Path] = (),
    against: Sequence[Path] = (),
    policy: Path | None = None,
    output: Literal["table", "json"] = "table",
) -> Exit:
    """Replay recordings through `rules`, and through `against` for the difference.

    Return FINDING if two rule sets were compared and differ.
    """
    policies = policies_from(policy) if policy is not None else []
    sets = [rules_from(rules)] + ([rules_from(against)] if against else [])
    try:
        replayed = replay(entries(recordings), sets, policies)
    except Wrong as error:
        raise Refusal(str(error), Exit.USAGE) from error
    for world in replayed.worlds:
        for name, why in sorted(world.rejected.items()):
            typer.echo(f"rule {name} is refused and was not replayed: {why}", err=True)
    differences = changes(*(w.jobs for w in replayed.worlds)) if against else None
    if output == "json":
        typer.echo(json.dumps(as_json(replayed, differences), indent=1))
    else:
        for line in describe_replay(replayed, differences):
            typer.echo(line)
    typer.echo(summary(replayed), err=True)
    return Exit.FINDING if differences else Exit.FINE


@dataclass(slots=True)
class Replayed:
    """One world for each rule set, after the same signals."""

    worlds: list[World]
    start: datetime | None = None
    end: datetime | None = None
    entries: int = 0


def replay(
    timed: Iterator[Timed],
    sets: Sequence[Sequence[NodeRemedier]],
    policies: Sequence[DefenderPolicy] = (),
) -> Replayed:
    """Replay a recording through each rule set. Raises Wrong if it is invalid or empty."""
    with contextlib.ExitStack() as stack:
        result = Replayed([])
        for at, group in groupby(timed, key=lambda pair: pair[0]):
            several = [entry for _, entry in group]
            if not result.worlds:
                result.start = at
                relative = isinstance(several[0].at, timedelta)
                result.worlds = [
                    World(
                        rules,
                        policies=policies,
                        diagnoser=stack.enter_context(engines()),
                        start=START if relative else at,
                    )
                    for rules in sets
                ]
            result.entries += len(several)
            result.end = at
            for world in result.worlds:
                world.run_before(at)
                for entry in several:
                    world.happen(entry)
                world.run_until(at)
        if not result.worlds:
            raise Wrong("the recording is empty: nothing happened in it")
        return result


# -- telling ----------------------------------------------------------------------------------


def describe_replay(replayed: Replayed, differences: Sequence[Change] | None) -> Iterator[str]:
    """Describe each job and its holds, or the difference of two rule sets."""
    world = replayed.worlds[0]
    if differences is not None:
        yield from (line for change in differences for line in change.lines())
        if not differences:
            yield "no difference: both rule sets would have done the same at the same times"
        return
    for job in world.jobs:
        yield from _job(job, world.now)
    reported = [
        s for s in world.waited if s.what not in UNREPORTED and not _is_job_wait(s, world.jobs)
    ]
    for (rule, why), spans in _grouped(reported):
        yield _waits(rule, why, spans, world.now)
    if not world.jobs:
        yield "no job would have been made"


UNREPORTED = (WaitReason.OPEN_JOB, WaitReason.GROUP_WAIT)


def _is_job_wait(span: Span, jobs: Sequence[JobRecord]) -> bool:
    """Return whether the span is the initial wait of a job, which is shown as the job's hold."""
    return span.what == WaitReason.STARTUP and any(
        (job.node, job.remedier) == (span.node, span.rule)
        and job.made <= span.since
        and (job.begun is None or span.since < job.begun)
        for job in jobs
    )


def _job(job: JobRecord, now: datetime) -> Iterator[str]:
    made = format_time(job.made)
    ended = f" after {_lasted(job.made, job.closed or now)}"
    state = job.phase.value if not job.open else f"still {job.phase.value}"
    yield f"{made}  {job.node}  {job.remedier} ({job.mode.value}): {state}{ended}: {job.message}"
    for rung in job.rungs:
        ran = f"ran at {format_time(rung.ran)}" if rung.ran is not None else "did not run"
        steps = ", ".join(f"{s.name} {s.state}" for s in job.steps if s.rung == rung.name)
        head = f"    rung {rung.name} (class {rung.disruption.value}) {ran}"
        yield f"{head}: {steps}" if steps else head
    for hold in job.holds:
        until = hold.until or job.closed or now
        if until > hold.since:
            where = f" in {hold.scope}" if hold.scope else ""
            yield f"    held {_lasted(hold.since, until)} by {hold.reason}{where}: {hold.message}"


def _grouped(spans: Sequence[Span]) -> list[tuple[tuple[str, str], list[Span]]]:
    ordered = sorted(spans, key=lambda s: (s.rule, s.what))
    return [(key, list(g)) for key, g in groupby(ordered, key=lambda s: (s.rule, s.what))]


def _waits(rule: str, why: str, spans: Sequence[Span], now: datetime) -> str:
    nodes = {span.node for span in spans}
    longest = max((span.until or now) - span.since for span in spans)
    few = ", ".join(sorted(nodes)[:5]) + (", ..." if len(nodes) > 5 else "")
    return (
        f"rule {rule} matched but made no job: {why}, on {len(nodes)} nodes ({few}), at most"
        f" {format_duration(longest)} at a time"
    )


def _lasted(since: datetime, until: datetime) -> str:
    return format_duration((until - since) // SECOND * SECOND)


def sum_holds(world: World) -> dict[str, dict[str, float]]:
    """Return by reason how many jobs were held, and for how many seconds in all."""
    jobs: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    for job in world.jobs:
        jobs.update({hold.reason for hold in job.holds})
        for hold in job.holds:
            until = hold.until or job.closed or world.now
            seconds[hold.reason] += round((until - hold.since).total_seconds())
    return {reason: {"jobs": n, "seconds": seconds[reason]} for reason, n in sorted(jobs.items())}


def summary(replayed: Replayed) -> str:
    world = replayed.worlds[0]
    assert replayed.start is not None and replayed.end is not None
    acts = sum(len(job.acts) for job in world.jobs)
    holds = ", ".join(f"{r} {v['jobs']:.0f}" for r, v in sum_holds(world).items()) or "nothing"
    return (
        f"{replayed.entries} signals of {len(world.nodes)} nodes in"
        f" {_lasted(replayed.start, replayed.end)}: {len(world.jobs)} jobs, {acts} steps that"
        f" change hosts; jobs held by {holds}"
    )


def as_json(replayed: Replayed, differences: Sequence[Change] | None) -> dict[str, Any]:
    world = replayed.worlds[0]
    assert replayed.start is not None and replayed.end is not None
    result: dict[str, Any] = {
        "start": format_time(replayed.start),
        "end": format_time(replayed.end),
        "signals": replayed.entries,
        "nodes": len(world.nodes),
        "refused": world.rejected,
        "jobs": [job.to_dict() for job in world.jobs],
        "held": sum_holds(world),
        "waits": [_span(span) for span in world.waited],
        "inferred": [_span(span) for span in world.inferred],
    }
    if differences is not None:
        result["against"] = [job.to_dict() for job in replayed.worlds[1].jobs]
        result["difference"] = [change.to_dict() for change in differences]
    return result


def _span(span: Span) -> dict[str, Any]:
    until = format_time(span.until) if span.until is not None else None
    return {
        "node": span.node,
        "rule": span.rule,
        "what": span.what,
        "since": format_time(span.since),
        "until": until,
    }
