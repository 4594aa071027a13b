"""Benign look-alikes change nothing: planned work, boots, and applications that report faults."""

from collections.abc import Iterator
from typing import Any

import pytest
from support.lookalikes import LookAlike, acted_on, acted_on_marked, look_alikes

from kubenode.cli.library import FOLDER, library, packs
from rules.diagnose import Diagnoser
from simulation.replay.testing import collected

STORIES = look_alikes()
RULES = library()


@pytest.fixture(scope="module")
def diagnoser() -> Diagnoser:
    return Diagnoser()


def told(stories: list[LookAlike], diagnoser: Diagnoser) -> list[str]:
    found = acted_on(stories, RULES, diagnoser)
    return [f"{story.name} ({story.source}): {job.remedier}" for story, job in found]


@pytest.mark.exhaustive
def test_no_rule_acts_on_a_benign_look_alike(diagnoser: Diagnoser) -> None:
    assert told(STORIES, diagnoser) == []


@pytest.mark.exhaustive
def test_no_rule_acts_on_a_benign_look_alike_without_one_of_its_signals(
    diagnoser: Diagnoser,
) -> None:
    assert told([v for story in STORIES for v in story.variants()], diagnoser) == []


def faults() -> Iterator[LookAlike]:
    """Stories whose marks of planned work are taken away."""
    for story in STORIES:
        if any(story.look.get(part) for part in ("taints", "labels", "annotations")):
            yield LookAlike(story.name, story.source, {}, story.signals)


@pytest.mark.exhaustive
def test_most_look_alikes_are_acted_on_without_their_marks(diagnoser: Diagnoser) -> None:
    unmarked = list(faults())
    named = {story.name for story, _ in acted_on(unmarked, RULES, diagnoser)}
    assert len(named) >= len(unmarked) * 2 // 3


MARKS: dict[str, dict[str, Any]] = {
    "maintenance": {"annotations": {"kubenode.io/maintenance-until": "2040-01-01T00:00:00Z"}},
    "driver upgrade": {"labels": {"nvidia.com/gpu-driver-upgrade-state": "drain-required"}},
}
PLANNED = {rule.metadata.name for rule in packs()["cloud"]} | {"machine-unhealthy"}
"""Rules for what a cloud or another system plans or asks for: planned work is their evidence."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("why", sorted(MARKS))
def test_no_rule_acts_in_its_own_tests_when_the_node_is_marked_for_planned_work(why: str) -> None:
    found = {
        f"{case.file.stem}: {case.test.name}: {job.remedier}"
        for case in collected([FOLDER])
        for job in acted_on_marked(case, MARKS[why])
        if job.remedier not in PLANNED
    }
    assert found == set()
