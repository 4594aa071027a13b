"""The scenario `release` of the demo as a visitor runs it, judged by its independent observer."""

import json
import subprocess

import pytest
from support.command import fresh

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
STAGES = ["test", "staging", "production"]
RELEASE = ("demo", "--scenario", "release", "--json")


@pytest.fixture(scope="module")
def run() -> subprocess.CompletedProcess[str]:
    return fresh(*RELEASE, limit=240)


def test_good_release_goes_through_the_stages_and_the_bad_one_stops_at_the_first(
    run: subprocess.CompletedProcess[str],
) -> None:
    assert run.returncode == 0, run.stderr
    (line,) = run.stdout.splitlines()
    result = json.loads(line)
    assert result["violations"] == 0, result["violationsSeen"]
    assert result["stagesInOrder"] is True
    assert (result["stoppedAt"], result["rolledBack"]) == ("test", True)
    good, bad = result["appeared"].values()
    assert (list(good), list(bad)) == (STAGES, ["test"])
    assert list(result["releases"].values()) == ["Succeeded", "RolledBack"]
    assert result["seconds"] < 180


def test_story_says_who_judged_and_why_the_bad_release_stopped(
    run: subprocess.CompletedProcess[str],
) -> None:
    assert "is judged by its own Remedy operator" in run.stderr
    assert "'disk.forecast' is no built-in fact and no rule infers it" in run.stderr
    assert "ann approves production" in run.stderr
    assert "Traceback" not in run.stderr


def test_flags_of_a_simulated_fleet_are_refused() -> None:
    refused = fresh(*RELEASE, "--nodes", "60", limit=60)
    assert refused.returncode == 2
    assert "--nodes: the scenario release has no simulated nodes or faults" in refused.stderr
