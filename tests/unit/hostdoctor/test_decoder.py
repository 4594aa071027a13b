"""From the bytes of a request to what a parser is given; CloudEvents in their three modes."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.host_doctor import NOW, at

from kubenode.api.v1alpha1.hostevent import HostEventClass, HostEventPhase, HostEventSource
from kubenode.api.v1alpha1.noderemedier import Severity
from remedy.hostdoctor.decoder import cloud_events, json_of
from remedy.hostdoctor.parsers import PARSERS
from remedy.hostdoctor.report import ParseError, ReportedEvents, ReportedHost

DATA = {
    "class": "Maintenance",
    "phase": "Scheduled",
    "severity": "Critical",
    "externalID": "work-order-7",
    "notBefore": "2026-01-10T08:01:00Z",
    "message": "PDU 3 is replaced",
    "host": {"names": ["worker-17"]},
}
EVENT: dict[str, Any] = {
    "specversion": "1.0",
    "id": "42",
    "source": "/dc1/pdu",
    "type": "io.kubenode.hostevent",
    "time": "2026-01-10T08:00:00Z",
    "data": DATA,
}


def parsed(headers: dict[str, str], body: Any) -> ReportedEvents:
    return PARSERS["cloudevents"](cloud_events(headers, json.dumps(body).encode()), NOW)


def structured(**changes: Any) -> ReportedEvents:
    return parsed({"content-type": "application/cloudevents+json; charset=utf-8"}, EVENT | changes)


def test_the_same_event_in_three_modes() -> None:
    one = structured()
    batch = parsed({"content-type": "application/cloudevents-batch+json"}, [EVENT])
    headers = {f"ce-{key}": value for key, value in EVENT.items() if key != "data"}
    binary = parsed({**headers, "content-type": "application/json"}, DATA)
    assert one == batch == binary
    (event,) = one.events
    assert event.source is HostEventSource.WEBHOOK
    assert event.external_id == "/dc1/pdu/work-order-7"
    assert (event.class_, event.phase) == (HostEventClass.MAINTENANCE, HostEventPhase.SCHEDULED)
    assert (event.severity, event.not_before) == (Severity.CRITICAL, at(60))
    assert event.host == ReportedHost(names=("worker-17",))


def test_the_subject_names_the_host_where_the_data_do_not() -> None:
    told = structured(subject="worker-3", data={"class": "Reboot"})
    assert told.events[0].host == ReportedHost(names=("worker-3",))
    assert told.events[0].external_id == "/dc1/pdu/42"
    assert structured(data={"class": "Reboot"}).events[0].host is None


def test_other_types_are_of_no_concern() -> None:
    told = structured(type="com.example.order")
    assert (told.events, told.ignored) == ((), ("type: com.example.order is of no concern",))


def test_a_wrong_event_of_a_batch_is_passed_over() -> None:
    headers = {"content-type": "application/cloudevents-batch+json"}
    told = parsed(headers, [EVENT, 7, {**EVENT, "data": {"class": "Party"}}])
    assert len(told.events) == 1
    assert told.ignored[0] == "[1]: is 7; it must be a JSON object"
    assert told.ignored[1].startswith("[2].data.class: is 'Party'; it must be one of Reboot, Stop")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"source": ""}, "source"),
        ({"id": 7}, "id: "),
        ({"time": "soon"}, "time: is 'soon'"),
        ({"data": None}, "data: is None; it must be a JSON object"),
        ({"data": {}}, "data.class: is missing"),
        ({"data": {**DATA, "phase": "Late"}}, "data.phase: is 'Late'; it must be one of Scheduled"),
        ({"data": {**DATA, "host": {"names": "x"}}}, "data.host.names: is 'x'"),
        ({"data": {**DATA, "host": {"names": ["x"] * 17}}}, "at most 16"),
        ({"data": {**DATA, "advisory": "yes"}}, "data.advisory: is 'yes'; it must be true or"),
        ({"specversion": "9"}, "specversion"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(ParseError) as refused:
        structured(**changes)
    assert why in str(refused.value)


def test_a_content_type_that_is_none_of_the_three_is_refused() -> None:
    with pytest.raises(ParseError, match="Content-Type: is 'application/json'"):
        parsed({"content-type": "application/json"}, EVENT)


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[" * 100_000, b'{"a":' * 100_000, b"\xff\xfe", b'{"a": NaN}', b'"\xd8"']
)
def test_what_is_no_json_is_refused(raw: bytes) -> None:
    with pytest.raises(ParseError, match="body: is"):
        json_of(raw)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from([*EVENT, *DATA, "alerts", "labels", "status", "version", "endsAt"])
            | st.text(max_size=4),
            inner,
            max_size=6,
        )
    ),
    max_leaves=10,
)


@given(st.sampled_from(["alertmanager", "grafana", "cloudevents"]), JSON)
def test_any_json_is_told_or_refused(transport: str, payload: Any) -> None:
    try:
        assert isinstance(PARSERS[transport](payload, NOW), ReportedEvents)
    except ParseError as error:
        assert len(str(error)) < 2000


@given(st.dictionaries(st.sampled_from([*EVENT, "subject", "extra"]), JSON), JSON)
@pytest.mark.exhaustive
def test_any_cloud_event_is_told_or_refused(attributes: dict[str, Any], data: Any) -> None:
    payload = {**EVENT, **attributes, "data": data}
    with contextlib.suppress(ParseError):
        assert isinstance(PARSERS["cloudevents"](payload, NOW), ReportedEvents)


@given(
    st.dictionaries(st.sampled_from([f"ce-{key}" for key in EVENT]), st.text(max_size=9)),
    st.binary(max_size=40),
)
def test_any_headers_are_told_or_refused(headers: dict[str, str], raw: bytes) -> None:
    with contextlib.suppress(ParseError):
        PARSERS["cloudevents"](cloud_events({"ce-specversion": "1.0", **headers}, raw), NOW)
