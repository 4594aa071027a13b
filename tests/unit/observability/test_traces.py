"""A fault's way as spans: the same trace whoever tells it, nothing secret, nothing while off."""

import asyncio
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from support.clock import T0, FakeClock
from support.documented import ROOT
from support.remedy_builders import CORDONED, DRAINED, a_job, asked, refused, running

from kubenode.api.v1alpha1 import JobPhase
from kubenode.runtime.telemetry import tracing
from kubenode.runtime.telemetry.places import TRACEPARENT, SpanContext, place_of, read
from kubenode.runtime.telemetry.tracing import TraceSpan, collecting
from remedy.job import traces
from remedy.job.model import Job, JobAct, JobActResult
from remedy.job.spans import ended, fault_of

LATER = T0 + timedelta(minutes=3)
SECRET = "token=hunter2-from-the-host"
IMPORTS = re.compile(r"^\s*(import|from) opentelemetry", re.MULTILINE)


class Collected:
    """A Tracer that keeps what it is told."""

    def __init__(self) -> None:
        self.spans: list[TraceSpan] = []

    def emit(self, span: TraceSpan) -> None:
        self.spans.append(span)


@contextmanager
def collected() -> Iterator[list[TraceSpan]]:
    tracer = Collected()
    with collecting(tracer):
        yield tracer.spans


def agent_said(state: str, output: str = "") -> dict[str, Any]:
    answer = {
        "state": state,
        "startedAt": (T0 + timedelta(seconds=5)).isoformat(),
        "finishedAt": (T0 + timedelta(seconds=9)).isoformat(),
        "code": 0 if state == "Done" else 1,
        "output": output,
    }
    return {"requests": {"r0s2a1": answer}}


def at_the_agent(**changes: Any) -> Job:
    return a_job(status=running(2, CORDONED, DRAINED, asked(2), **changes))


def told(before: Job, after: Job) -> dict[str, TraceSpan]:
    return {span.name: span for span in ended(before, after, LATER)}


@pytest.mark.parametrize(
    "header",
    ["", "00", f"00-{'0' * 32}-{'1' * 16}-01", f"00-{'1' * 32}-{'0' * 16}-01", "x" * 10_000,
     f"00-{'G' * 32}-{'1' * 16}-01", f"00-{'1' * 32}-{'1' * 16}-01\nX: y"],
)  # fmt: skip
def test_what_is_no_header_of_a_trace_means_none(header: str) -> None:
    assert read(header) is None


def test_a_place_is_read_back_from_its_header_and_derives_from_names() -> None:
    place = place_of("node-uid", "job")
    assert read(place.header) == place
    assert place == place_of("node-uid", "job")
    assert place != place_of("node-uid", "another")
    assert place.part("step", 0, 1) == place.part("step", 0, 1)
    assert place.part("step", 0, 1) not in (place, place.part("step", 0, 2), place.part("step", 1))


def test_a_job_is_in_the_trace_that_it_was_made_with_else_in_one_of_its_own() -> None:
    given = SpanContext("a" * 32, "b" * 16)
    assert fault_of(replace(a_job(), traceparent=given.header)) == given
    assert fault_of(replace(a_job(), traceparent="nonsense")) == fault_of(a_job())


def test_a_step_and_the_agents_part_are_told_with_the_times_of_the_status() -> None:
    before = at_the_agent(agent=agent_said("Done"))
    over = asked(2, "Done") | {"finishedAt": (T0 + timedelta(seconds=10)).isoformat()}
    after = a_job(status=running(3, CORDONED, DRAINED, over, agent=agent_said("Done")))
    spans = told(before, after)
    assert set(spans) == {"step agent", "agent agent"}
    step, agent = spans["step agent"], spans["agent agent"]
    assert (step.start, step.end) == (T0, T0 + timedelta(seconds=10))
    assert (agent.end - agent.start, agent.parent) == (timedelta(seconds=4), step.place.span)
    assert step.parent == fault_of(after).span
    assert spans == told(before, after)  # whoever tells it again tells the same


def test_a_failed_step_says_so_without_what_the_host_printed() -> None:
    failed = asked(2, "Failed") | {"message": f"exit 1: {SECRET}"}
    answer = agent_said("Failed", SECRET)
    after = a_job(status=running(2, CORDONED, DRAINED, failed, agent=answer))
    spans = told(at_the_agent(agent=answer), after)
    assert spans["step agent"].error.startswith("exit 1")
    assert spans["agent agent"].error
    assert SECRET not in str(spans)


def test_a_hold_is_told_once_it_is_over() -> None:
    hold = {"reason": "ConcurrencyLimit", "scope": "zone=b", "since": T0.isoformat()}
    held = a_job(status={"phase": "AwaitingPermit", "hold": hold})
    other = a_job(status={"phase": "AwaitingPermit", "hold": hold | {"reason": "RateLimit"}})
    assert told(held, other) == {}
    over = told(other, a_job(status=running(0)))["hold"]
    assert (over.start, over.end, over.about["kubenode.reason"]) == (T0, LATER, "RateLimit")


def test_the_fault_is_told_at_the_end_of_its_job_and_only_then() -> None:
    verifying = a_job(status=running(3, phase=JobPhase.VERIFYING))
    done = {"closed": LATER.isoformat(), "verified": LATER.isoformat()}
    after = a_job(status=running(3, phase=JobPhase.SUCCEEDED, timeline=done))
    spans = told(verifying, after)
    assert set(spans) == {"verify", "fault"}
    assert (spans["fault"].parent, spans["fault"].end, spans["fault"].error) == ("", LATER, "")
    assert told(after, after) == {}


def test_an_act_is_part_of_its_step_and_calls_of_others_belong_to_it() -> None:
    job, clock = at_the_agent(), FakeClock()
    with collected() as spans, traces.acting(job, JobAct.ASK_PERMIT, clock) as doing:
        header = tracing.headers()[TRACEPARENT]
        clock.step(timedelta(seconds=2))
        traces.add_result(doing, JobActResult(JobAct.ASK_PERMIT, refused()))
    (span,) = spans
    assert span.place == read(header)
    assert span.end - span.start == timedelta(seconds=2)
    assert span.about["kubenode.allowed"] is False
    assert span.place.trace == fault_of(job).trace
    assert span.parent == fault_of(job).part("step", 0, 2).span
    assert tracing.headers() == {}


def test_what_an_act_raises_is_told_and_goes_on() -> None:
    with (
        collected() as spans,
        pytest.raises(TimeoutError),
        traces.acting(at_the_agent(), JobAct.CORDON, FakeClock()),
    ):
        raise TimeoutError("no answer")
    assert spans[0].error == "TimeoutError: no answer"


def test_tasks_do_not_see_each_others_places() -> None:
    async def one(number: int) -> str:
        place = place_of(number)
        with tracing.within(place):
            await asyncio.sleep(0)
            return "" if tracing.here() == place else f"{number} sees another's"

    async def both() -> list[str]:
        return list(await asyncio.gather(one(1), one(2)))

    assert asyncio.run(both()) == ["", ""]


def test_while_nobody_collects_nothing_is_computed_and_no_header_is_sent() -> None:
    traces.saved(a_job(), a_job(status=running(0)), FakeClock())
    with traces.acting(a_job(), JobAct.CORDON, FakeClock()):
        assert tracing.headers() == {}
    assert not tracing.on()


def test_one_module_alone_imports_opentelemetry() -> None:
    """And it is imported where an address is set: see kubenode.cli.traces."""
    packages = (
        "agent",
        "defender",
        "insight",
        "kubenode",
        "machine",
        "remedy",
        "rules",
        "simulation",
    )
    files = [file for name in packages for file in (ROOT / name).rglob("*.py")]
    found = {str(f.relative_to(ROOT)) for f in files if IMPORTS.search(f.read_text())}
    assert found == {"kubenode/runtime/telemetry/otlp.py"}
    assert "kubenode.runtime.telemetry.otlp" not in sys.modules
