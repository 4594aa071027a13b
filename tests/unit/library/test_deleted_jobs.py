"""Every story of the library ends alike when closed jobs are deleted at random moments.

A story is a case of a `*.test.yaml`: what happens to nodes, and which jobs, rungs and waits follow.
Whatever a decision needs of jobs that are over stands in the records of their nodes.
"""

import random
from pathlib import Path
from typing import Any

import pytest

from kubenode.cli.library import FOLDER, packs
from simulation.replay import testing
from simulation.replay.clock import finished
from simulation.replay.world import World


class ForgetfulWorld(World):
    """Deletes each closed job at some time after it closed, or at once."""

    deleted = 0

    def __init__(self, *given: Any, **named: Any) -> None:
        self.chance = random.Random(7)
        super().__init__(*given, **named)

    def _settle(self) -> None:
        super()._settle()
        closed = [kept.job for kept in self._jobs._entries.values() if kept.job.phase.closed]
        for job in closed:
            if self.chance.random() < 0.5:
                finished(self._jobs.delete(job))
                ForgetfulWorld.deleted += 1


def failures_of(stories: Path) -> dict[str, list[Any]]:
    """By place of a case what of it does not hold."""
    found = {case.where(): testing.run(case, None) for case in testing.collected([stories])}
    return {place: wrong for place, wrong in found.items() if wrong}


@pytest.mark.exhaustive
@pytest.mark.parametrize("pack", sorted(packs()))
def test_a_story_of_the_library_ends_alike_when_closed_jobs_are_deleted(
    pack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testing, "World", ForgetfulWorld)
    assert failures_of(FOLDER / pack) == {}


def test_jobs_are_deleted_in_these_stories(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testing, "World", ForgetfulWorld)
    before = ForgetfulWorld.deleted
    assert failures_of(FOLDER / "kubelet-runtime" / "pleg-unhealthy.test.yaml") == {}
    assert ForgetfulWorld.deleted > before
