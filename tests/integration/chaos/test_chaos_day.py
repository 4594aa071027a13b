"""Short days of chaos by simulated time, each time the same: a full day takes an hour to run."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
HALF_AN_HOUR = ("--for", "30m", "--faults", "25", "--seed", "7", "--nodes", "45", "--every", "6s")
HOUR = ("--for", "1h", "--faults", "60", "--seed", "2", "--nodes", "100", "--every", "15s")
"""Long enough for a backup that is old enough to be restored."""

pytestmark = [pytest.mark.integration, pytest.mark.timeout(540)]


def day(*words: str) -> dict[str, Any]:
    run = subprocess.run(
        [sys.executable, "-m", "chaos.simulated", *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": "tests", "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        timeout=520,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr[-2000:]
    found: dict[str, Any] = json.loads(run.stdout)
    assert found["holds"], found
    return found


def test_programs_die_in_the_middle_of_anything_and_every_fault_is_healed() -> None:
    found = day(*HALF_AN_HOUR)
    assert (found["falseActions"], found["limitViolations"]) == (0, 0)
    assert found["faultsHealed"] == found["faultsInjected"] > 10
    assert found["actsJudged"] > found["healedByUs"] > 10
    assert sum(sum(blows.values()) for blows in found["blows"].values()) >= 3
    assert sum(found["disturbances"].values()) >= 3, found["disturbances"]


def test_a_restore_of_etcd_is_noticed_at_once_and_nothing_is_done_to_a_healthy_node() -> None:
    found = day(*HOUR)
    assert found["disturbances"]["etcd restored"] == found["restores"] >= 1
    assert max(found["noticedAfter"]) < 1.0
    assert (found["falseActions"], found["limitViolations"]) == (0, 0)
    assert found["faultsHealed"] == found["faultsInjected"] > 30
