"""The outbox is bounded, drops the oldest, and knows what must be derived again."""

from support.stream_objects import closed_job

from kubenode.runtime.stream.derivation import StreamIdentity, job_events
from kubenode.runtime.stream.model import StreamEvent
from kubenode.runtime.stream.outbox import StreamOutbox


def events_of(name: str) -> list[StreamEvent]:
    return list(job_events(closed_job(name=name), None, StreamIdentity("prod")))


EACH = len(events_of("a"))


def test_known_event_is_queued_once() -> None:
    outbox = StreamOutbox()
    outbox.add("a", events_of("a"))
    outbox.remove(EACH)
    outbox.add("a", events_of("a"))
    assert len(outbox) == 0


def test_batch_is_the_oldest_and_stays_until_removed() -> None:
    outbox = StreamOutbox()
    outbox.add("a", events_of("a"))
    assert outbox.batch(2) == outbox.batch(2) == events_of("a")[:2]
    outbox.remove(2)
    assert outbox.batch(100) == events_of("a")[2:]


def test_full_outbox_drops_the_oldest_which_are_queued_again_later() -> None:
    outbox = StreamOutbox(EACH)
    assert outbox.add("a", events_of("a")) == 0
    assert outbox.add("b", events_of("b")) == EACH
    assert outbox.batch(100) == events_of("b")
    assert outbox.take_incomplete() == set(), "not while events wait"
    outbox.remove(EACH)
    assert outbox.take_incomplete() == {"a"}
    assert outbox.take_incomplete() == set()
    outbox.add("a", events_of("a"))
    assert outbox.batch(100) == events_of("a")


def test_dropped_event_of_a_deleted_object_is_not_waited_for() -> None:
    outbox = StreamOutbox(EACH)
    outbox.add("a", events_of("a"))
    outbox.forget("a")
    outbox.add("b", events_of("b"))
    outbox.remove(EACH)
    assert outbox.take_incomplete() == set()
