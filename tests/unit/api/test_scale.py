"""Faster time changes every duration and nothing else."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.api_objects import GOOD

from kubenode.api.duration import format_duration, parse_duration
from kubenode.api.scale import divided, scaled
from kubenode.api.v1alpha1 import DefenderPolicy, NodeRemedier, default_policy

DURATION = re.compile(r"([0-9]+(\.[0-9]+)?(ms|[smh]))+")


def fields(data: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every scalar of an object with its path."""
    if isinstance(data, dict):
        for name, value in data.items():
            yield from fields(value, f"{path}.{name}")
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from fields(value, f"{path}.{index}")
    else:
        yield path, data


def a_remedier() -> NodeRemedier:
    """A rule with a duration wherever a rule can have one."""
    rule = NodeRemedier.from_user(GOOD["remedier"]).to_dict()
    rule["spec"]["when"]["all"].append({"not": {"absent": {"for": "20m", "fact": {"name": "a.b"}}}})
    rule["spec"]["ladder"][0]["steps"][2]["migrate"] |= {
        "gracePeriod": "90s",
        "podPolicies": [
            {"mode": "DeleteAfter", "after": "40m"},
            {
                "mode": "Gang",
                "gang": {"groupBy": "job", "checkpoint": {"webhook": "w", "timeout": "4m"}},
            },
        ],
    }
    rule["spec"]["ladder"][0]["steps"].append({"wait": {"for": "45s"}})
    return NodeRemedier.from_user(rule)


@pytest.mark.parametrize(
    "resource", [a_remedier(), default_policy(), DefenderPolicy.from_user(GOOD["policy"])]
)
@given(speed=st.floats(min_value=0.01, max_value=1000))
def test_all_durations_change_and_only_they(
    resource: NodeRemedier | DefenderPolicy, speed: float
) -> None:
    before = dict(fields(resource.to_dict()))
    after = dict(fields(scaled(resource, speed).to_dict()))
    assert before.keys() == after.keys()
    for path, value in before.items():
        if isinstance(value, str) and DURATION.fullmatch(value):
            wanted = parse_duration(value) / speed
            got = parse_duration(after[path])
            assert abs(got - wanted) <= timedelta(milliseconds=1), path
            assert bool(got) == bool(wanted), path
        else:
            assert after[path] == value, path


def test_the_object_itself_stays_as_it_was() -> None:
    rule = a_remedier()
    before = rule.to_dict()
    assert scaled(rule, 20).spec.cooldown == timedelta(seconds=90)
    assert rule.to_dict() == before


def test_a_scaled_rule_is_still_a_rule() -> None:
    fast = scaled(a_remedier(), 20)
    assert NodeRemedier.from_user(fast.to_dict()) == fast
    steps = [step.name for rung in fast.spec.ladder or () for step in rung.steps]
    assert steps[:4] == ["cordon", "collect", "migrate", "reboot"]
    grace = (fast.spec.ladder or [])[0].steps[2].migrate
    assert grace is not None and grace.grace_period == format_duration(timedelta(seconds=4.5))


@pytest.mark.parametrize("speed", [0, -1, float("nan")])
def test_speed_that_does_not_run_time_is_refused(speed: float) -> None:
    with pytest.raises(ValueError, match="give a number above 0"):
        scaled(default_policy(), speed)


@pytest.mark.parametrize(("millis", "wanted"), [(0, 0), (1, 1), (5, 1), (30_000, 30)])
def test_a_wait_becomes_short_but_never_none(millis: int, wanted: int) -> None:
    assert divided(timedelta(milliseconds=millis), 1000) == timedelta(milliseconds=wanted)


def test_answers_of_hosts_age_as_fast_as_they_are_asked_for() -> None:
    data = NodeRemedier.from_user(GOOD["remedier"]).to_dict()
    probe = {"probe": {"name": "disk.space_ok", "maxAge": "1m"}}
    rule = NodeRemedier.from_user(data | {"spec": data["spec"] | {"unless": {"any": [probe]}}})
    assert scaled(rule, 20).to_dict()["spec"]["unless"]["any"][0]["probe"].get("maxAge", "1m") == (
        "1m"
    )
