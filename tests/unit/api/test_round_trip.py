"""Any rule survives the wire; what a server adds is passed over, what a person adds is refused."""

import copy
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from support.api_objects import GOOD

from kubenode.api.duration import format_duration
from kubenode.api.problems import problems
from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.api.v1alpha1.leaves import DEPTH, Expression

durations = st.integers(0, 10**9).map(lambda n: format_duration(timedelta(milliseconds=n)))
words = st.from_regex(r"[A-Za-z]{1,12}", fullmatch=True)
names = st.from_regex(r"[a-z]{1,8}\.[a-z]{1,8}", fullmatch=True)
leaves = st.one_of(
    st.fixed_dictionaries(
        {"condition": st.fixed_dictionaries({"type": words}, optional={"for": durations})}
    ),
    st.fixed_dictionaries(
        {"event": st.fixed_dictionaries({"reason": words}, optional={"count": st.integers(1, 9)})}
    ),
    st.fixed_dictionaries(
        {
            "fact": st.fixed_dictionaries(
                {"name": names, "below": st.floats(allow_nan=False, allow_infinity=False)}
            )
        }
    ),
    st.fixed_dictionaries({"fact": st.fixed_dictionaries({"name": names, "equals": words})}),
    st.fixed_dictionaries({"label": st.fixed_dictionaries({"key": words, "value": words})}),
    st.fixed_dictionaries(
        {
            "absent": st.fixed_dictionaries(
                {"for": durations, "alert": st.fixed_dictionaries({"name": words})}
            )
        }
    ),
)


def expressions(depth: int) -> st.SearchStrategy[Any]:
    """Expressions of at most `depth` combinators."""
    if depth == 0:
        return leaves
    below = expressions(depth - 1)
    several = st.lists(below, min_size=1, max_size=3)
    return st.one_of(
        leaves,
        st.fixed_dictionaries({"all": several}),
        st.fixed_dictionaries({"any": several}),
        st.fixed_dictionaries({"not": below}),
    )


def a_rule(when: Any, **more: Any) -> dict[str, Any]:
    return {**GOOD["remedier"], "spec": {**GOOD["remedier"]["spec"], "when": when, **more}}


@given(expressions(DEPTH), durations, st.integers(0, 1000))
def test_any_rule_survives_the_wire(when: Any, cooldown: str, priority: int) -> None:
    rule = NodeRemedier.from_user(a_rule(when, cooldown=cooldown, priority=priority))
    wire = rule.to_dict()
    assert NodeRemedier.from_server(json.dumps(wire).encode()) == rule
    assert NodeRemedier.from_user(wire) == rule


def places(data: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every map of an object where only known fields may stand."""
    free = ("labels", "annotations", "matchLabels", "params", "args", "attributes")
    if isinstance(data, dict):
        yield path, data
        for name, value in data.items():
            if name not in free:
                yield from places(value, f"{path}.{name}")
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from places(value, f"{path}[{index}]")


@given(expressions(DEPTH), st.data())
def test_an_unknown_field_is_passed_over_from_a_server_and_refused_of_a_person(
    when: Any, data: st.DataObject
) -> None:
    rule = NodeRemedier.from_user(a_rule(when))
    wire = copy.deepcopy(rule.to_dict())
    path, place = data.draw(st.sampled_from(list(places(wire))))
    place["xyz"] = {"new": 1}
    assert NodeRemedier.from_server(json.dumps(wire).encode()) == rule
    with pytest.raises(ValidationError) as caught:
        NodeRemedier.from_user(wire)
    assert any(line.startswith(f"{path}.xyz".removeprefix(".")) for line in problems(caught.value))


@given(expressions(DEPTH))
def test_leaves_and_depth_of_an_expression_are_those_of_its_text(when: Any) -> None:
    read = Expression.model_validate(when)
    assert 0 <= read.depth <= DEPTH
    assert len(list(read.leaves())) == sum(1 for _ in written_leaves(when))


def written_leaves(when: Any) -> Iterator[Any]:
    ((name, value),) = when.items()
    if name in ("all", "any"):
        for member in value:
            yield from written_leaves(member)
    elif name == "not":
        yield from written_leaves(value)
    else:
        yield value
