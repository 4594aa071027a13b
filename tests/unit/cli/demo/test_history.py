"""The simulated past of the demo: it is repeatable, complete, and tells the story of a release."""

from collections import Counter
from datetime import timedelta

import pytest
from support.clock import T0

from kubenode.cli.exits import Refusal
from kubenode.runtime.stream.model import JobClosed, JobOpened, StepEnded
from simulation.demo.fleet import places
from simulation.demo.history import (
    BAD_KERNEL,
    GOOD_KERNEL,
    NEW_KERNEL,
    PER_DAY,
    RELEASE,
    past_events,
)
from simulation.demo.main import read_past

DAYS = timedelta(days=90)
EVENTS = list(past_events(places(60), 7, T0, DAYS))
OPENED = [(event.time, event.data) for event in EVENTS if isinstance(event.data, JobOpened)]


def test_same_seed_gives_the_same_past() -> None:
    assert list(past_events(places(60), 7, T0, DAYS)) == EVENTS
    assert list(past_events(places(60), 8, T0, DAYS)) != EVENTS


def test_every_event_is_of_its_own_and_every_job_ends() -> None:
    assert len({event.id for event in EVENTS}) == len(EVENTS)
    assert len(OPENED) == PER_DAY * 90
    assert sum(isinstance(event.data, JobClosed) for event in EVENTS) == len(OPENED)


def test_times_of_a_job_are_in_order() -> None:
    for event in EVENTS:
        match event.data:
            case JobClosed() as data:
                assert data.job_created and data.permit_granted and data.acted
                times = [data.first_true, data.job_created, data.permit_granted, data.acted]
                times += [data.verified] if data.verified else []
                assert times == sorted(times)
                assert times[-1] < event.time
            case StepEnded() as step:
                assert step.started_at is not None and step.started_at < event.time
            case _:
                pass


def test_release_stops_the_deadlocks_of_one_kernel() -> None:
    def rate(kernel: str, *, since: bool) -> float:
        """Deadlocks of each day."""
        days = RELEASE if since else DAYS - RELEASE
        count = sum(
            data.job.fault_class == "kernel_deadlock" and data.node.kernel == kernel
            for at, data in OPENED
            if (at >= T0 - RELEASE) == since
        )
        return count / (days / timedelta(days=1))

    assert rate(BAD_KERNEL, since=False) > 4 * rate(GOOD_KERNEL, since=False)
    assert rate(BAD_KERNEL, since=True) == 0
    assert rate(NEW_KERNEL, since=True) < rate(BAD_KERNEL, since=False) / 3


def test_few_nodes_have_most_relapses() -> None:
    counts = Counter(data.node.name for _, data in OPENED)
    worst = counts.most_common(4)
    assert worst[2][1] > 1.3 * worst[3][1]


@pytest.mark.parametrize("text", ["90", "0d", "401d", "90h", "²d", "-1d"])
def test_length_of_the_past_is_days(text: str) -> None:
    with pytest.raises(Refusal, match="write a number of days from 1d to 400d"):
        read_past(text)


def test_length_of_the_past_is_read() -> None:
    assert (read_past(None), read_past("90d")) == (timedelta(0), timedelta(days=90))
