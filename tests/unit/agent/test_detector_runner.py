"""Detectors run beside the agent's work and never take it down."""

from datetime import timedelta

from support.agent_node import Watcher
from support.clock import FakeClock, settle
from support.running import running

from agent.detector_runner import FAILED, WELL_SECONDS, DetectorRunner
from agent.detectors import EventReport, Report, Sink


class Stage:
    def __init__(self) -> None:
        self.running: set[str] = set()
        self.reports: list[Report] = []

    def report(self, report: Report) -> None:
        self.reports.append(report)

    def sink(self, detector: str) -> Sink:
        return self

    def started(self, detector: str) -> None:
        self.running.add(detector)

    def failed(self, detector: str) -> None:
        self.running.discard(detector)


class Steady(Watcher):
    async def run(self, sink: object) -> None:
        self.runs += 1
        await self.clock.sleep(WELL_SECONDS + 1)
        raise OSError("the journal went away")

    clock = FakeClock()


async def test_f03_a_detector_that_fails_is_told_started_again_later_and_others_go_on() -> None:
    clock, stage = FakeClock(), Stage()
    bad = Watcher("bad", (), fails=[OSError("no such device"), ValueError("x")])
    good = Steady("good", ())
    good.clock = clock
    watching = DetectorRunner([bad, good], stage, clock, spread=lambda: 1.0)
    async with running(watching.run()):
        await settle()
        assert (bad.runs, stage.running) == (1, {"good"})
        (report,) = stage.reports
        assert isinstance(report, EventReport)
        assert (report.reason, report.detector) == (FAILED, "bad")
        assert "OSError: no such device; its conditions are not renewed" in report.message
        await clock.advance(timedelta(seconds=1.1))
        assert bad.runs == 2
        await clock.advance(timedelta(seconds=1.1))
        assert bad.runs == 2  # longer each time
        await clock.advance(timedelta(seconds=1.1))
        assert bad.runs == 3
        assert "it ended by itself" in stage.reports[-1].message


async def test_a_detector_that_worked_for_long_starts_again_soon() -> None:
    clock, stage = FakeClock(), Stage()
    steady = Steady("steady", ())
    steady.clock = clock
    async with running(DetectorRunner([steady], stage, clock, spread=lambda: 1.0).run()):
        for round_ in range(1, 6):
            await settle()
            assert steady.runs == round_
            await clock.advance(timedelta(seconds=WELL_SECONDS + 2))
            await clock.advance(timedelta(seconds=1.1))
