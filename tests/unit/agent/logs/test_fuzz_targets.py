"""The fuzz targets for a moment: any bytes, and bytes that look like what is expected."""

import json
from typing import Any

import pytest
from fuzz.log_targets import ORIGINS, TARGETS
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.detectors.logs.pack import read_pack, shipped

KNOWN = [
    text.encode()
    for name, content in shipped()
    for rule in read_pack(name, content).rule
    for text in [*rule.matches, *rule.near_misses]
]
WRITERS = st.integers(0, len(ORIGINS) - 1).map(lambda n: bytes([n]))
LINES = st.lists(st.tuples(WRITERS, st.sampled_from(KNOWN) | st.binary(max_size=40)), max_size=30)
RULES = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["temporary", "permanent", "x", 1]),
        "reason": st.text(max_size=5),
        "pattern": st.text(max_size=12) | st.integers(),
        "condition": st.text(max_size=5),
    },
)


@pytest.mark.parametrize("name", sorted(TARGETS))
@settings(max_examples=25)
@given(st.binary(max_size=400))
def test_any_bytes_are_taken(name: str, data: bytes) -> None:
    TARGETS[name](data)


@settings(max_examples=25)
@given(LINES)
def test_lines_in_any_order_keep_the_state_bounded(lines: list[tuple[bytes, bytes]]) -> None:
    TARGETS["watching"](b"\0".join(writer + text for writer, text in lines))


@settings(max_examples=25)
@given(
    st.fixed_dictionaries(
        {"plugin": st.sampled_from(["kmsg", "journald", "filelog"]), "source": st.just("s")},
        optional={
            "rules": st.lists(RULES, max_size=3) | st.text(max_size=3),
            "conditions": st.lists(RULES, max_size=2) | st.none(),
            "bufferSize": st.integers() | st.text(max_size=3),
            "lookback": st.text(max_size=5),
            "pluginConfig": st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
            "logPath": st.text(max_size=5),
        },
    )
)
def test_a_configuration_of_any_shape_is_read_or_refused(config: dict[str, Any]) -> None:
    TARGETS["npd_config"](json.dumps(config).encode())
