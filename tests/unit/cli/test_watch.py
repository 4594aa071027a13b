"""`kubenode watch`: the status again and again, with what changed; a failed read says so."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.clock import T0, FakeClock
from support.running import running

from defender.overview.faults import ObservedFault
from defender.overview.situation import NodeSituation
from defender.overview.summary import FleetSummary
from kubenode.cli.status import FleetStatus
from kubenode.cli.watch import LineScreen, WatchFrame, list_changes, watch
from kubenode.runtime.kube.errors import KubeError

FAULT = ObservedFault("KernelDeadlock", T0, "kernel-deadlock")


def status(*nodes: NodeSituation) -> FleetStatus:
    summary = FleetSummary(nodes=3, faulty=len(nodes))
    return FleetStatus(T0, summary, nodes, (), {}, ())


ILL = NodeSituation("n1", (FAULT,))
REPAIRED = NodeSituation("n1", (FAULT,), repairing=True, jobs=1)


class ScriptedReads:
    """Yields the results one after another, and then waits without an end."""

    def __init__(self, clock: FakeClock, *results: FleetStatus | KubeError, takes: float = 0.0):
        self._clock, self._results, self._takes = clock, list(results), takes
        self.count = 0

    async def read(self) -> FleetStatus:
        if not self._results:
            await asyncio.Event().wait()
        self.count += 1
        self._clock.step(timedelta(seconds=self._takes))
        result = self._results.pop(0)
        if isinstance(result, KubeError):
            raise result
        return result


async def run_for(reads: ScriptedReads, clock: FakeClock, seconds: Sequence[float]) -> list[str]:
    """Return the lines of LineScreen after the clock moved by each of `seconds`."""
    output: list[str] = []
    async with running(watch(reads.read, LineScreen(output.append), clock, 5.0)):
        await clock.advance(timedelta(0))
        for each in seconds:
            await clock.advance(timedelta(seconds=each))
    return output


async def test_each_change_of_a_node_is_a_line() -> None:
    clock = FakeClock()
    reads = ScriptedReads(clock, status(), status(ILL), status(ILL), status(REPAIRED), status())
    first, *changes = await run_for(reads, clock, [5.0] * 4)
    assert first == "No node has a fault." or first.startswith("All is well")
    assert [line.partition("  ")[2] for line in changes] == [
        "n1  KernelDeadlock: has no job",
        "n1  KernelDeadlock: is being repaired",
        "n1  has no fault any more",
    ]


async def test_a_failed_read_is_said_once_and_the_next_one_goes_on() -> None:
    clock = FakeClock()
    away = KubeError(503, "ServiceUnavailable", "away")
    reads = ScriptedReads(clock, status(), away, away, status(ILL))
    output = await run_for(reads, clock, [5.0] * 3)
    assert sum("cannot read the cluster" in line for line in output) == 1
    assert output[-1].endswith("n1  KernelDeadlock: has no job")


async def test_a_first_read_that_fails_ends_the_command() -> None:
    clock = FakeClock()
    reads = ScriptedReads(clock, KubeError(401, "Unauthorized", "who are you"))
    with pytest.raises(KubeError, match="who are you"):
        await watch(reads.read, LineScreen(), clock, 5.0)


@pytest.mark.parametrize(("takes", "pause"), [(0.0, 5.0), (0.1, 5.0), (2.0, 40.0)])
async def test_slow_reads_are_a_twentieth_of_the_time_at_most(takes: float, pause: float) -> None:
    clock = FakeClock()
    reads = ScriptedReads(clock, status(), status(), takes=takes)
    await run_for(reads, clock, [pause - 0.01])
    assert reads.count == 1
    clock = FakeClock()
    reads = ScriptedReads(clock, status(), status(), takes=takes)
    await run_for(reads, clock, [pause + 0.01])
    assert reads.count == 2


def test_a_screen_that_is_not_current_says_so_first() -> None:
    frame = WatchFrame(status(ILL), ("t  n1  has no fault any more",), problem="503 away")
    first, *_, last = frame.lines()
    assert first.startswith("NOT CURRENT") and "503 away" in first
    assert last == "t  n1  has no fault any more"


STATES = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.sampled_from(["x", "y"]))


@given(STATES, STATES)
def test_changes_name_exactly_the_nodes_that_differ(
    before: dict[str, str], after: dict[str, str]
) -> None:
    named = [line.split()[1] for line in list_changes(before, after, "t")]
    assert named == sorted(n for n in {*before, *after} if before.get(n) != after.get(n))
