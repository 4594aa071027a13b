"""Wall-clock edges on a real scheduler."""

import logging
from datetime import timedelta

import pytest
from support.defender_core import a_policy
from support.running import running, until

from defender.decision.policies import LoadedPolicy
from defender.server.calendar import Calendar
from kubenode.runtime.clock import SystemClock

pytestmark = pytest.mark.integration


async def test_whoever_waits_is_called_when_a_pause_ends_also_one_that_is_new(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "defender.server.calendar")
    clock, woken = SystemClock(), list[float]()

    def paused(seconds: float) -> LoadedPolicy:
        at = (clock.now() + timedelta(seconds=seconds)).isoformat()
        return a_policy(limits=[{"scope": "Cluster", "maxConcurrent": 1}], pauses=[{"until": at}])

    policies = [paused(1.0)]
    calendar = Calendar(clock, lambda: policies, lambda: woken.append(clock.monotonic()))
    async with running(calendar.run()):
        began = clock.monotonic()
        await until(lambda: len(woken) == 1, 60, "the pause ended")
        assert woken[0] - began >= 0.9
        policies[:] = [paused(0.5)]
        calendar.reschedule()
        await until(lambda: len(woken) == 2, 60, "the new one ended too")
    assert "the pause of cluster ends" in caplog.text
    calendar.reschedule()  # not ours any more: nothing happens
