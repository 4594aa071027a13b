"""Benign life at length: how often do the rules act on a fleet to which nothing bad happens?

    PYTHONPATH=tests python -m support.benign --node-hours 2000
    PYTHONPATH=tests python -m support.benign --node-hours 1000000 --to benign.json

The time is cut into chunks, each a fleet of its own with its own seed. With `--to` every finished
chunk is written down at once, and a run that was ended goes on where it was: what is there counts.
No act in N node-hours means, with 95 % confidence, fewer than 3/N acts per node-hour.
"""

import argparse
import atexit
import json
import multiprocessing
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from heapq import heappush
from pathlib import Path
from typing import Any

from support.benign_life import Life, live
from support.benign_stories import START
from support.figures import keep

from kubenode.api.v1alpha1 import Disruption, Mode, NodeRemedier
from kubenode.cli.engine import CHILD
from kubenode.cli.library import library
from kubenode.runtime.child import ChildProcess
from rules.diagnose import Diagnoser
from simulation.replay.records import JobRecord
from simulation.replay.signals import NodeSnapshot
from simulation.replay.world import World

Task = tuple[int, int, float, float]
"""Seed, nodes, hours, pace."""
NODES, HOURS = 50, 168.0
"""Of one chunk."""
LONGEST = timedelta(hours=3)
FOR_EVER = datetime.max.replace(tzinfo=UTC)
AFTER = timedelta(minutes=30)
"""What a chunk's last moments might still lead to."""
RULE_OF_THREE = 3.0


class CalmWorld(World):
    """A world that does not look every few minutes at nodes to which nothing happens.

    In production a heartbeat comes before each instant at which a condition would be too old to be
    believed, and nothing is looked at. Here heartbeats are written when somebody looks. So outside
    the stories, where every condition of a node is healthy and heard from, those instants are
    void: the node is looked at every LONGEST. Within a story nothing is left out.
    """

    def __init__(self, rules: Sequence[NodeRemedier], diagnoser: Diagnoser, life: Life) -> None:
        self._busy = {node: sorted(spans) for node, spans in life.busy.items()}
        super().__init__(rules, diagnoser=diagnoser, start=START)

    def _schedule_wake(self, name: str, state: Any, times: Iterable[datetime | None]) -> None:
        waits = state.waits or any(past.open for past in self._past(name))
        if waits or self._in_story(name):
            super()._schedule_wake(name, state, times)
            return
        state.wake = self.now + LONGEST
        heappush(self._wakes, (state.wake, name))

    def _in_story(self, name: str) -> bool:
        spans = self._busy.get(name, [])
        found = bisect_right(spans, (self.now, FOR_EVER))
        return any(self.now < end for _, end in spans[max(found - 4, 0) : found])


@dataclass(frozen=True, slots=True)
class Chunk:
    """One fleet's time.

    acts     jobs that did anything to a host, its pods or a node
    wanted   jobs that would have, and waited for a permit, an approval or their turn
    told     jobs that only told people
    """

    seed: int
    node_hours: float
    signals: int
    evaluations: int
    acts: list[dict[str, Any]]
    wanted: list[dict[str, Any]]
    told: Mapping[str, int]
    stories: Mapping[str, int]
    seconds: float


@dataclass(slots=True)
class Total:
    node_hours: float = 0.0
    signals: int = 0
    evaluations: int = 0
    seconds: float = 0.0
    acts: list[dict[str, Any]] = field(default_factory=list)
    wanted: list[dict[str, Any]] = field(default_factory=list)
    told: dict[str, int] = field(default_factory=dict)
    stories: dict[str, int] = field(default_factory=dict)
    chunks: int = 0

    def add(self, chunk: Chunk) -> None:
        self.chunks += 1
        self.node_hours += chunk.node_hours
        self.signals += chunk.signals
        self.evaluations += chunk.evaluations
        self.seconds += chunk.seconds
        self.acts += chunk.acts
        self.wanted += chunk.wanted
        for mine, theirs in ((self.told, chunk.told), (self.stories, chunk.stories)):
            for name, count in theirs.items():
                mine[name] = mine.get(name, 0) + count

    @property
    def bound(self) -> float | None:
        """Upper 95 % bound of acts per node-hour; None where there were acts."""
        quiet = not self.acts and not self.wanted and self.node_hours
        return RULE_OF_THREE / self.node_hours if quiet else None

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "upper_95_per_node_hour": self.bound}


def chunk(task: Task, rules: Sequence[NodeRemedier], diagnoser: Diagnoser) -> Chunk:
    seed, nodes, hours, pace = task
    began = time.process_time()
    life = live(seed, nodes, hours, pace)
    world = CalmWorld(rules, diagnoser, life)
    for name, look in life.looks.items():
        world.add_node(name, NodeSnapshot.model_validate(look))
    world.feed(*life.entries)
    world.run_until(START + timedelta(hours=hours) + AFTER)
    told: dict[str, int] = {}
    acted, wanted = [], []
    for job in world.jobs:
        if job.acts:
            acted.append(_named(job))
        elif acts(job):
            wanted.append(_named(job))
        elif not only_waited(job):
            told[job.remedier] = told.get(job.remedier, 0) + 1
    return Chunk(
        seed=seed,
        node_hours=nodes * hours,
        signals=world.signals,
        evaluations=world.evaluations,
        acts=acted,
        wanted=wanted,
        told=told,
        stories=life.stories,
        seconds=time.process_time() - began,
    )


def acts(job: JobRecord) -> bool:
    """Whether a job did, or would do, anything to a node: a limit is no excuse for a rule."""
    if job.acts:
        return True
    if job.mode is Mode.DRY_RUN or only_waited(job):
        return False
    return job.ladder[job.start_rung].disruption_class is not Disruption.NONE


def only_waited(job: JobRecord) -> bool:
    """Whether a job ended in its initial wait: it asked for no permit, began no step, told nobody.

    One that still waits counts as what it would become.
    """
    return not (job.open or job.begun or job.steps or job.permit_at)


def _named(job: JobRecord) -> dict[str, Any]:
    return {
        "rule": job.remedier,
        "node": job.node,
        "made": job.made.isoformat(),
        "steps": [step.name for step in job.acts],
        "why": job.explanation.splitlines()[:8],
    }


_loaded: list[tuple[list[NodeRemedier], Diagnoser]] = []
"""Of this process: the rules, and both engines with them."""


def engines_of_this_process(rules: list[NodeRemedier]) -> tuple[list[NodeRemedier], Diagnoser]:
    """The second engine's child ends with the process."""
    diagnoser = Diagnoser(lambda: ChildProcess(CHILD))
    atexit.register(diagnoser.close)
    return rules, diagnoser


def _start() -> None:
    _loaded.append(engines_of_this_process(library()))


def _work(task: Task) -> Chunk:
    return chunk(task, *_loaded[0])


def run(tasks: Sequence[Task], processes: int = 1) -> Iterator[Chunk]:
    if processes <= 1:
        if not _loaded:
            _start()
        yield from map(_work, tasks)
        return
    with multiprocessing.get_context("spawn").Pool(processes, _start) as pool:
        yield from pool.imap_unordered(_work, tasks)


def tasks_for(
    node_hours: float, seed: int, nodes: int, hours: float, pace: float = 1.0
) -> list[Task]:
    """Whole chunks, at least as many as it takes."""
    count = max(-(-int(node_hours) // int(nodes * hours)), 1)
    return [(seed + number, nodes, hours, pace) for number in range(count)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--node-hours", type=float, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--hours", type=float, default=HOURS)
    parser.add_argument("--pace", type=float, default=0.15, help="how much happens in an hour")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--to", type=Path, help="JSON lines of finished chunks, and the total")
    parser.add_argument("--keep", action="store_true", help="for the report of the rules")
    parser.add_argument("--note", default="", help="goes into the report with the figures")
    given = parser.parse_args()
    total, tasks = (
        Total(),
        tasks_for(given.node_hours, given.seed, given.nodes, given.hours, given.pace),
    )
    log = given.to.with_suffix(".jsonl") if given.to is not None else None
    if log is not None and log.exists():
        before = [Chunk(**json.loads(line)) for line in log.read_text().splitlines()]
        known = {done.seed for done in before}
        for done in before:
            total.add(done)
        tasks = [task for task in tasks if task[0] not in known]
    for done in run(tasks, given.processes):
        total.add(done)
        if log is not None:
            with log.open("a") as out:
                out.write(json.dumps(asdict(done)) + "\n")
            given.to.write_text(json.dumps(total.to_dict(), indent=1) + "\n")
    print(json.dumps(total.to_dict(), indent=1))  # noqa: T201
    if given.keep:
        keep("benign", {**figures(total, given.seed), "note": given.note})


def figures(total: Total, seed: int) -> dict[str, Any]:
    """For the report of the rules."""
    return {
        "node_hours": total.node_hours,
        "signals": total.signals,
        "evaluations": total.evaluations,
        "cpu_seconds": round(total.seconds),
        "acts": len(total.acts) + len(total.wanted),
        "told": dict(sorted(total.told.items())),
        "stories": dict(sorted(total.stories.items())),
        "seeds": f"{seed} to {seed + total.chunks - 1}",
        "rules": len(library()),
        "date": time.strftime("%Y-%m-%d"),
    }


if __name__ == "__main__":
    main()
