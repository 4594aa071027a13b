"""The fuzz targets of Host Doctor for a moment: any bytes, and words that payloads are made of."""

import json
from typing import Any

import pytest
from fuzz.told_targets import TARGETS
from hypothesis import given, settings
from hypothesis import strategies as st

WORDS = st.sampled_from(
    [
        *("alerts", "status", "labels", "startsAt", "endsAt", "alertname", "instance", "firing"),
        *("Events", "EventId", "Resources", "EventStatus", "NotBefore", "detail", "detail-type"),
        *(
            "id",
            "content",
            "eventId",
            "instanceId",
            "time",
            "type",
            "source",
            "specversion",
            "data",
        ),
    ]
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=15,
)


@pytest.mark.parametrize("name", sorted(TARGETS))
@settings(max_examples=settings().max_examples // 8)
@given(st.binary(max_size=200))
def test_any_bytes_are_taken_or_refused(name: str, data: bytes) -> None:
    TARGETS[name](data)


@pytest.mark.parametrize("name", sorted(set(TARGETS) - {"headers"}))
@settings(max_examples=settings().max_examples // 8)
@given(VALUES)
def test_any_json_is_taken_or_refused(name: str, value: Any) -> None:
    TARGETS[name](json.dumps(value).encode())
