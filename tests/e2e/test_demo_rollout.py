"""The demo's rollout as a visitor runs it, judged by what holds however busy the machine is."""

import json
import signal
import time

import pytest
from support.command import freshly_started

PATIENCE = 400.0
"""Seconds. Alone on its cores it has stopped after 80 s; most of that it waits."""

pytestmark = pytest.mark.e2e


@pytest.mark.timeout(PATIENCE + 100)
def test_a_rollout_that_goes_bad_stops_at_its_third_batch() -> None:
    """It ends when it has stopped: how long that takes is the machine's matter."""
    flags = ("--scenario", "rollout", "--seed", "7", "--json", "--port", "0")
    with freshly_started("demo", *flags) as demo:
        assert demo.stdout is not None and demo.stderr is not None
        said: list[str] = []
        deadline = time.monotonic() + PATIENCE
        while not any("containerd: Paused" in line for line in said):
            assert time.monotonic() < deadline, said[-5:]
            said.append(demo.stderr.readline())
            assert said[-1], said[-20:]
        demo.send_signal(signal.SIGINT)
        found = json.loads(demo.communicate(timeout=60)[0])
    rollout = found["rollout"]
    assert (rollout["phase"], rollout["stoppedAtBatch"]) == ("Paused", 3)
    assert rollout["machinesUpdated"] >= 6, "the first two batches"
    assert rollout["machinesRolledBack"] >= 1
    assert 7 <= rollout["machinesTouched"] <= 16, "nobody outside of the three batches"
    assert rollout["mostUnavailable"] <= rollout["machines"] * 20 // 100
