"""Events are derived from the state of an object: complete, repeatable, and free of free text."""

import json

import jsonschema
import msgspec
from cloudevents.core.v1.event import CloudEvent
from support.clock import T0
from support.stream_objects import CLOSED, a_job_object, a_node, a_permit, at, closed_job

from devtools.stream_schema import schema
from kubenode.api.v1alpha1 import RemedyOperationJob
from kubenode.runtime.stream.derivation import StreamIdentity, job_events, permit_events
from kubenode.runtime.stream.model import (
    PREFIX,
    TYPES,
    EventNode,
    JobClosed,
    JobDecided,
    JobOpened,
    StreamEvent,
    encode_batch,
)

IDENTITY = StreamIdentity("prod")
DECISION = {"decision": "Approve", "by": "ann", "at": at(5), "note": "call me at home"}


def job_with_everything() -> RemedyOperationJob:
    status = CLOSED | {"hold": None}
    return RemedyOperationJob.model_validate(a_job_object(status, approvals=[DECISION]))


def waiting_job(reason: str) -> RemedyOperationJob:
    hold = {"reason": reason, "scope": "cluster", "message": "2 of 2 used", "since": at(3)}
    return RemedyOperationJob.model_validate(
        a_job_object({"phase": "AwaitingPermit", "hold": hold})
    )


def all_events() -> list[StreamEvent]:
    jobs = [job_with_everything(), waiting_job("ConcurrencyLimit"), waiting_job("GuardTrue")]
    events = [event for job in jobs for event in job_events(job, a_node(), IDENTITY)]
    return [*events, *permit_events(a_permit(), a_node(), IDENTITY)]


def types_of(events: list[StreamEvent]) -> list[str]:
    return [event.type.removeprefix(PREFIX) for event in events]


def test_closed_job_yields_each_transition_once_in_its_order() -> None:
    events = list(job_events(job_with_everything(), a_node(), IDENTITY))
    assert types_of(events) == [
        "job.opened",
        *("step.started", "step.ended", "step.started", "step.ended"),
        "job.decided",
        "job.closed",
    ]
    assert len({event.id for event in events}) == len(events)


def test_same_object_yields_equal_events_again() -> None:
    assert all_events() == all_events()


def test_later_state_repeats_the_ids_of_earlier_transitions() -> None:
    running = {"phase": "Running", "steps": CLOSED["steps"][:1]}
    earlier = RemedyOperationJob.model_validate(a_job_object(running))
    before = {event.id for event in job_events(earlier, None, IDENTITY)}
    assert before < {event.id for event in job_events(closed_job(), None, IDENTITY)}


def test_step_that_begins_again_is_another_transition() -> None:
    first, second = (
        RemedyOperationJob.model_validate(
            a_job_object({"steps": [{**CLOSED["steps"][0], "startedAt": at(start)}]})
        )
        for start in (11, 30)
    )
    ids = [
        {e.id for e in job_events(job, None, IDENTITY) if "step" in e.type}
        for job in (first, second)
    ]
    assert ids[0].isdisjoint(ids[1])


def test_closed_event_has_the_timeline() -> None:
    *_, closed = job_events(closed_job(), a_node(), IDENTITY)
    data = closed.data
    assert isinstance(data, JobClosed)
    assert closed.time.isoformat() == at(111)
    assert data.job_created == T0
    assert [data.first_true.isoformat(), data.rung_name] == [at(-5), "drain-and-restart"]
    assert (data.reason, data.hold_seconds, data.pods_unavailable_seconds) == ("Verified", 8, 3)


def test_refusal_of_kube_defender_is_apart_from_other_holds() -> None:
    refused = list(job_events(waiting_job("ConcurrencyLimit"), None, IDENTITY))[-1]
    waiting = list(job_events(waiting_job("GuardTrue"), None, IDENTITY))[-1]
    assert types_of([refused, waiting]) == ["permit.refused", "job.hold"]
    assert refused.time.isoformat() == at(3)


def test_permit_yields_its_grant_and_its_release() -> None:
    assert types_of(list(permit_events(a_permit(), None, IDENTITY))) == [
        "permit.granted",
        "permit.released",
    ]
    events = list(permit_events(a_permit(released=False), None, IDENTITY))
    assert types_of(events) == ["permit.granted"]


def test_another_node_of_the_same_name_gives_no_properties() -> None:
    ours, other = (
        next(job_events(closed_job(), a_node(uid=uid), IDENTITY)).data
        for uid in ("node-uid-1", "another")
    )
    assert isinstance(ours, JobOpened)
    assert isinstance(other, JobOpened)
    assert (ours.node.kernel, ours.node.zone, ours.node.machine_type) == ("6.1", "z1", "m1")
    assert ours.node.rack == "r1"
    assert other.node == EventNode(name="n1", uid="node-uid-1")


def test_user_names_are_left_out_on_request() -> None:
    identity = StreamIdentity("prod", user_names=False)
    [decided] = [
        event.data
        for event in job_events(job_with_everything(), None, identity)
        if isinstance(event.data, JobDecided)
    ]
    assert (decided.decision, decided.by) == ("Approve", "")


def test_no_message_note_or_user_of_a_holder_is_sent() -> None:
    sent = encode_batch(all_events()).decode()
    assert "ann" in sent
    for text in ("call me", "secret-pod", "2 of 2", "bot", "is healthy"):
        assert text not in sent


def test_every_event_is_a_cloud_event_and_fits_the_published_schema() -> None:
    validator = jsonschema.Draft202012Validator(schema())
    events = json.loads(encode_batch(all_events()))
    for event in events:
        validator.validate(event)
        data = event.pop("data")
        CloudEvent({**event, "time": msgspec.convert(event["time"], type=type(T0))}, data)
    assert {event["type"] for event in events} == set(TYPES)


def test_schema_refuses_an_event_without_its_data() -> None:
    event = json.loads(encode_batch(all_events()))[0]
    del event["data"]["firstTrue"]
    assert not jsonschema.Draft202012Validator(schema()).is_valid(event)
