"""How fast faults become jobs, as metrics and as spans: our own time, not what a rule waits for."""

from datetime import timedelta

from prometheus_client import Histogram
from support.clock import T0
from support.remedy_hand import Hands

from kubenode.runtime.telemetry.places import ANNOTATION, place_of, read
from kubenode.runtime.telemetry.tracing import TraceSpan, collecting

SECOND = timedelta(seconds=1)
LONG_AGO = T0 - timedelta(days=2)


class Collected:
    def __init__(self) -> None:
        self.spans: list[TraceSpan] = []

    def emit(self, span: TraceSpan) -> None:
        self.spans.append(span)


def seen(histogram: Histogram) -> tuple[float, float]:
    """How many, and their sum."""
    (family,) = histogram.collect()
    found = {sample.name.rpartition("_")[2]: sample.value for sample in family.samples}
    return found["count"], found["sum"]


async def a_fault() -> Hands:
    """Ill since T0, seen 4 s later, and the rule waits for 30 s from then."""
    hands = Hands()
    await hands.rule()
    hands.node(Ready=("True", LONG_AGO), Sick=("False", LONG_AGO))
    hands.clock.step(4 * SECOND)
    hands.current()
    hands.node(Ready=("True", LONG_AGO), Sick=("True", T0))
    return hands


async def test_a_signal_is_measured_from_its_reporters_time_and_only_when_it_turns() -> None:
    hands = await a_fault()
    signals = hands.operator.decider.metrics.signal_seconds
    assert seen(signals) == (1, 4)
    hands.node(Ready=("True", LONG_AGO), Sick=("True", T0))
    assert seen(signals) == (1, 4)


async def test_what_a_rule_waits_for_is_not_our_time() -> None:
    hands = await a_fault()
    assert await hands.decide() == 30 * SECOND
    await hands.later(30 * SECOND)
    assert len(hands.made()) == 1
    assert seen(hands.operator.decider.metrics.decide_seconds) == (1, 0)


async def test_what_comes_after_the_wait_is() -> None:
    hands = await a_fault()
    assert await hands.decide() == 30 * SECOND
    await hands.later(33 * SECOND)
    assert seen(hands.operator.decider.metrics.decide_seconds) == (1, 3)


async def test_the_first_parts_of_the_way_are_told_and_the_job_carries_its_place() -> None:
    tracer = Collected()
    hands = await a_fault()
    with collecting(tracer):
        await hands.decide()
        assert tracer.spans == []
        await hands.later(30 * SECOND)
    (job,) = hands.made()
    fault = place_of("uid-n1", job.metadata.name)
    assert read(job.metadata.annotations[ANNOTATION]) == fault
    spans = {span.name: span for span in tracer.spans}
    assert set(spans) == {"detect", "decide", "diagnose", "create job"}
    assert {span.place.trace for span in tracer.spans} == {fault.trace}
    assert (spans["detect"].start, spans["detect"].end) == (T0, T0 + 4 * SECOND)
    assert (spans["decide"].start, spans["decide"].end) == (T0 + 4 * SECOND, T0 + 34 * SECOND)
    assert spans["detect"].parent == spans["decide"].parent == fault.span
    assert spans["diagnose"].parent == spans["create job"].parent == spans["decide"].place.span


async def test_without_a_collector_a_job_carries_nothing() -> None:
    hands = await a_fault()
    await hands.later(30 * SECOND)
    assert ANNOTATION not in hands.made()[0].metadata.annotations
