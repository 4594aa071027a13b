"""The demo's rollout as a visitor runs it: KUBENODE_ALONE=1 where nothing else uses the cores. A
demo that shares them with other tests runs late, and its nodes are then rightly taken for ill.
"""

import json
import os
import signal
import time

import pytest
from support.command import started

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif("KUBENODE_ALONE" not in os.environ, reason="set KUBENODE_ALONE=1"),
]


@pytest.mark.timeout(420)
def test_a_rollout_that_goes_bad_stops_at_its_third_batch() -> None:
    """It ends when it has stopped: how long that takes is the machine's matter."""
    flags = ("--scenario", "rollout", "--speed", "20", "--seed", "7", "--json", "--port", "0")
    with started("demo", *flags) as demo:
        assert demo.stdout is not None
        said: list[str] = []
        deadline = time.monotonic() + 300
        while not any("containerd: Paused" in line for line in said):
            assert time.monotonic() < deadline, said[-5:]
            assert demo.stderr is not None
            said.append(demo.stderr.readline())
            assert said[-1], said[-20:]
        demo.send_signal(signal.SIGINT)
        found = json.loads(demo.communicate(timeout=60)[0])
    rollout = found["rollout"]
    assert rollout["phase"] == "Paused"
    assert rollout["stoppedAtBatch"] == 3
    assert rollout["machinesUpdated"] >= 6
    assert rollout["machinesRolledBack"] >= 1
    assert rollout["machinesTouched"] <= 16
    assert rollout["mostUnavailable"] <= 6
    assert found["limitViolations"] == 0, found["limitViolationsSeen"]
