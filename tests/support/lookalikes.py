"""Benign look-alikes of tests/data/lookalikes.yaml as timelines: each on one node, with as many
healthy nodes beside it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from support.benign import acts

from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.cli.library import rules_from
from rules.diagnose import Diagnoser
from simulation.replay.moments import instant
from simulation.replay.records import JobRecord
from simulation.replay.signals import NodeSnapshot
from simulation.replay.testfile import RuleTestCase
from simulation.replay.timeline import Entry, entry
from simulation.replay.world import World

TABLE = Path(__file__).parents[1] / "data/lookalikes.yaml"
START = datetime(2026, 4, 6, 9, 0, tzinfo=UTC)
OLD = START - timedelta(days=20)
LASTS = timedelta(hours=1)
SPACING = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class LookAlike:
    """One story. ends: entries with a time of their own, which take a condition back."""

    name: str
    source: str
    look: dict[str, Any]
    signals: Sequence[dict[str, Any]]
    ends: Sequence[dict[str, Any]] = field(default_factory=tuple)

    def without(self, number: int) -> "LookAlike":
        """Return the story without one signal."""
        left = [signal for n, signal in enumerate(self.signals) if n != number]
        return LookAlike(f"{self.name} without {number}", self.source, self.look, left, self.ends)

    def variants(self) -> Iterator["LookAlike"]:
        """Yield the story, and the story without each of its signals."""
        yield self
        for number in range(len(self.signals)):
            yield self.without(number)

    def entries(self, node: str) -> Iterator[Entry]:
        for number, signal in enumerate(self.signals):
            yield entry(at=START + number * SPACING, node=node, **signal)
        for end in self.ends:
            yield entry(node=node, **end)

    def snapshot(self) -> NodeSnapshot:
        labels = {"kubernetes.io/os": "linux", **self.look.get("labels", {})}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "since": OLD}
        look = {"created": OLD, "conditions": [ready], **self.look, "labels": labels}
        return NodeSnapshot.model_validate(look)


def look_alikes() -> list[LookAlike]:
    rows = YAML(typ="safe").load(TABLE)
    return [
        LookAlike(
            f"{row['class']} {number}",
            row["source"],
            row.get("node", {}),
            row["timeline"],
            row.get("ends", ()),
        )
        for number, row in enumerate(rows)
    ]


def acted_on(
    stories: Sequence[LookAlike], rules: Sequence[NodeRemedier], diagnoser: Diagnoser
) -> Iterator[tuple[LookAlike, JobRecord]]:
    """Yield the stories on whose node a rule acts, with its job."""
    world = World(rules, diagnoser=diagnoser, start=START)
    calm = LookAlike("calm", "", {}, ())
    by_node = {f"n{number}": story for number, story in enumerate(stories)}
    for name, story in by_node.items():
        world.add_node(name, story.snapshot())
        world.add_node(f"calm-{name}", calm.snapshot())
        world.feed(*story.entries(name))
    world.run_until(START + LASTS)
    for job in world.jobs:
        if acts(job):
            yield by_node.get(job.node, calm), job


def acted_on_marked(case: RuleTestCase, marks: dict[str, Any]) -> Iterator[JobRecord]:
    """Yield the jobs that act in a rule's own test, with marks of planned work on every Node."""
    world = World(_rules(tuple(case.rules)), start=case.start, unlimited=True)
    end = case.start
    for nodes in case.test.nodes:
        for name, look in nodes.list_snapshots(case.start):
            if not nodes.absent:
                world.add_node(
                    name, NodeSnapshot.model_validate(_marked(look, marks)), pods=nodes.pods
                )
            if nodes.probes:
                world.answer(name, nodes.probes)
    world.feed(*case.test.timeline)
    for expect in case.test.expect:
        end = max(end, instant(expect.at, case.start))
    world.run_until(end)
    yield from (job for job in world.jobs if acts(job))


def _marked(look: NodeSnapshot, marks: dict[str, Any]) -> dict[str, Any]:
    body = look.model_dump(exclude_unset=True, by_alias=True)
    for part, more in marks.items():
        old = body.get(part)
        body[part] = {**(old or {}), **more} if isinstance(more, dict) else [*(old or []), *more]
    return body


@cache
def _rules(paths: tuple[Path, ...]) -> list[NodeRemedier]:
    return rules_from(paths)
