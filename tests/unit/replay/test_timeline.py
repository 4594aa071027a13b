"""Entries of a timeline: what may be written, and what a mistake is told."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from simulation.replay.moments import read_length, read_moment
from simulation.replay.timeline import Entry, Wrong, entry, in_order, read_lines

CONDITION = {"type": "KernelDeadlock", "status": "True"}


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("90s", timedelta(seconds=90)),
        ("1h30m", timedelta(minutes=90)),
        ("30d", timedelta(days=30)),
        ("1d12h", timedelta(hours=36)),
        ("0s", timedelta(0)),
        ("250ms", timedelta(milliseconds=250)),
    ],
)
def test_lengths_are_those_of_go_and_days(text: str, length: timedelta) -> None:
    assert read_length(text) == length


@pytest.mark.parametrize("text", ["", "5", "5 minutes", "d", "-1s", "1w", "999999d", 5, None])
def test_what_is_no_length_is_refused(text: Any) -> None:
    with pytest.raises(ValueError, match=r"duration|years"):
        read_length(text)


def test_an_instant_needs_its_zone() -> None:
    assert read_moment("2026-01-05T12:00:00Z") == datetime(2026, 1, 5, 12, tzinfo=UTC)
    with pytest.raises(ValueError, match="no time zone"):
        read_moment("2026-01-05T12:00:00")
    with pytest.raises(ValueError, match="no instant"):
        read_moment("next-tuesday")


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"node": "a", "condition": CONDITION}, "at: required and missing"),
        ({"at": "1", "node": "a", "condition": CONDITION}, "at: '1' is no duration"),
        ({"at": "1s", "condition": CONDITION}, "node: required and missing: name the node"),
        ({"at": "1s", "node": "a"}, "one signal is needed, here is none"),
        (
            {"at": "1s", "node": "a", "condition": CONDITION, "cordon": True},
            "here is condition, cordon",
        ),
        ({"at": "1s", "node": "a", "conditon": CONDITION}, "did you mean condition?"),
        (
            {"at": "1s", "node": "a", "condition": {"type": "X", "status": True}},
            "condition.status: true is not known: write True, False or Unknown (YAML reads",
        ),
        ({"at": "1s", "node": "a", "event": {"count": 1}}, "event.reason: required and missing"),
        (
            {"at": "1s", "node": "a", "event": {"reason": "X", "count": 0}},
            "event.count: 0 is too small: write 1 or more",
        ),
        (
            {"at": "1s", "node": "a", "hostEvent": {"class": "Explosion"}},
            'hostEvent.class: "Explosion" is not known: write Reboot',
        ),
        (
            {"at": "1s", "node": "a", "alert": {"name": "X", "status": "on"}},
            'alert.status: "on" is not known: write firing or resolved',
        ),
        ({"at": "1s", "node": "a", "probe": {"dsk": {}}}, "'dsk' is no probe: write host"),
        (
            {"at": "1s", "node": "a", "probe": {"disk": {"full": True}}},
            "disk.full is no field of this probe: write used_pct",
        ),
        ({"at": "1s", "node": "a", "log": {"text": "oops"}}, "log.source: required and missing"),
        ({"at": "1s", "delivery": {"transport": "pigeon"}}, "'pigeon' is none: write alertmanager"),
        (
            {"at": "1s", "delivery": {"transport": "azure_imds", "payload": {}}},
            "node: azure_imds is told by an agent: name its node",
        ),
        (
            {"at": "1s", "node": "a", "delivery": {"transport": "aws_sqs", "payload": {}}},
            "node: no agent tells of aws_sqs: leave `node` out",
        ),
        ({"at": "1s", "node": "a", "alertSource": "silent"}, "of the whole fleet: leave `node`"),
        ({"at": "1s", "node": "a", "lifecycle": "born"}, "write created or deleted"),
        ({"at": "1s", "node": "a", "boot": {}, "look": {}}, "look: goes with `lifecycle: created`"),
        ({"at": "1s", "node": "a", "person": "shout"}, "write cancel, approve or deny"),
    ],
)
def test_a_mistake_is_told_with_field_and_remedy(fields: dict[str, Any], told: str) -> None:
    line = entry_line(fields)
    with pytest.raises(Wrong) as found:
        list(read_lines(["", line], "rec.jsonl"))
    assert str(found.value).startswith("rec.jsonl:2: ")
    assert told in str(found.value)


def test_a_line_that_is_no_json_names_its_place() -> None:
    with pytest.raises(Wrong, match=r"rec\.jsonl:3: "):
        list(read_lines([GOOD, GOOD, '{"at":'], "rec.jsonl"))


def test_invalid_utf8_is_told_not_raised() -> None:
    with pytest.raises(Wrong, match=r"rec\.jsonl:1: "):
        list(read_lines([b'{"at": "1s", "node": "\xff\xfe", "cordon": true}'], "rec.jsonl"))


@pytest.mark.parametrize(
    "fields",
    [
        {"at": "90s", "node": "a", "condition": {**CONDITION, "reason": "DockerHung"}},
        {"at": "2026-01-05T12:00:00Z", "node": ["a", "b"], "cordon": False},
        {"at": "1s", "node": "a", "silent": ["Ready"]},
        {"at": "1s", "node": "a", "boot": {}},
        {"at": "1s", "node": "a", "label": {"pool": None, "zone": "b"}},
        {"at": "1s", "node": "a", "probe": {"disk": {"used_pct": 95}, "power": None}},
        {"at": "1s", "alertSource": "silent"},
        {"at": "0s", "node": "a", "lifecycle": "created", "look": {"labels": {"x": "y"}}},
        {"at": "0s", "node": "a", "hostEvent": {"class": "Reboot", "notBefore": "1h"}},
        {"at": "0s", "node": "a", "system": {"gpus": 0}},
    ],
)
def test_what_is_written_is_read_again(fields: dict[str, Any]) -> None:
    first = Entry.model_validate(fields)
    (again,) = read_lines([first.line()], "rec")
    assert again == first and again.signal == first.signal


def test_entries_of_one_instant_keep_their_order() -> None:
    start = datetime(2026, 1, 5, 12, tzinfo=UTC)
    late = entry(at="10s", node="a", cordon=True)
    first, second = (entry(at="5s", node="a", cordon=on) for on in (True, False))
    same = entry(at=start + timedelta(seconds=5), node="b", cordon=True)
    found = [e for _, e in in_order([late, first, second, same], start)]
    assert found == [first, second, same, late]


GOOD = '{"at": "1s", "node": "a", "cordon": true}'


def entry_line(fields: dict[str, Any]) -> str:
    return json.dumps(fields)
