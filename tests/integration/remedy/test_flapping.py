"""Nodes whose conditions flap under the whole library in DryRun: objects do not grow with flaps."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
NODES = 2
HOURS = 1.5
SELDOM, OFTEN = 480, 120
"""Seconds of one flap: of the first there are a quarter as many."""
LEAST = 10
"""Objects of a kind, or kilobytes, that may be more by chance."""

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


def flapping(period: int) -> dict[str, Any]:
    """The last figures of a run in simulated time."""
    words = ["--flap-nodes", str(NODES), "--flap-days", str(HOURS / 24), "--flap-period"]
    run = subprocess.run(
        [sys.executable, "-m", "bench.run", "flapping", *words, str(period)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": "tests", "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr[-2000:]
    found: dict[str, Any] = json.loads(run.stdout)["flapping"]["days"][-1]
    return found


def test_objects_do_not_grow_with_the_number_of_flaps() -> None:
    seldom, often = flapping(SELDOM), flapping(OFTEN)
    assert often["turns"] >= 3 * seldom["turns"]
    for what in ("objects", "kilobytes"):
        more = {
            kind: (seldom[what].get(kind, 0), count)
            for kind, count in often[what].items()
            if count > 1.5 * seldom[what].get(kind, 0) + LEAST
        }
        assert more == {}
    for found in (seldom, often):
        assert "remedyoperationjobs.kubenode.io" not in found["objects"]
        assert 1 <= found["objects"]["noderecords.kubenode.io"] <= NODES
