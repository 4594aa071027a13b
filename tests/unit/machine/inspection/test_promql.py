"""What a query asks, and what Prometheus' answer says of a batch."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubenode.api.v1alpha1.machinecomponentset import OnEmpty, PromQLCheck
from machine.inspection.port import PASSED, InspectionAnswer, InspectionResult
from machine.inspection.promql import judged, question


def check(success: str = "> 0.99", on_empty: OnEmpty = OnEmpty.INCONCLUSIVE) -> PromQLCheck:
    return PromQLCheck(query="up", success=success, on_empty=on_empty)


def vector(*values: str, **more: Any) -> bytes:
    series = [{"metric": {"node": f"n{i}"}, "value": [1.5, v]} for i, v in enumerate(values)]
    data = {"resultType": "vector", "result": series}
    return json.dumps({"status": "success", "data": data, **more}).encode()


LABEL = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
NAME = st.lists(LABEL, min_size=1, max_size=3).map(".".join)


@given(st.lists(NAME, min_size=1, max_size=5), NAME)
def test_nodes_become_an_alternation_that_matches_them_and_no_other(
    names: list[str], other: str
) -> None:
    query = question('avg(up{node=~"${nodes}"})', names)
    assert isinstance(query, str)
    expression = query.removeprefix('avg(up{node=~"').removesuffix('"})')
    assert "\\" not in expression and '"' not in expression
    found = re.compile(f"^(?:{expression})$")  # as Prometheus anchors it
    assert all(found.match(name) for name in names)
    assert bool(found.match(other)) is (other in names)


def test_a_query_that_asks_for_nodes_of_a_batch_without_any_says_nothing() -> None:
    answer = question('up{node=~"${nodes}"}', [])
    assert isinstance(answer, InspectionAnswer) and answer.judged is InspectionResult.INCONCLUSIVE
    assert question("up", []) == "up"


@pytest.mark.parametrize(
    ("success", "good", "bad"),
    [
        ("> 0.99", "1", "0.99"),
        (">= 0.99", "0.99", "0.98"),
        ("<5", "4.9", "5"),
        ("<= -0.5", "-0.5", "-0.4"),
        ("== 0", "0", "1e-9"),
        ("!= 0", "-1", "0"),
        ("> 0.99", "+Inf", "-Inf"),
    ],
)
def test_success_must_hold_for_every_value(success: str, good: str, bad: str) -> None:
    assert judged(check(success), vector(good, good)) == PASSED
    answer = judged(check(success), vector(good, bad))
    assert answer.judged is InspectionResult.FAILED
    assert "node=n1" in answer.message and success in answer.message


def test_no_number_says_nothing_but_hides_no_failure() -> None:
    assert judged(check(), vector("1", "NaN")).judged is InspectionResult.INCONCLUSIVE
    assert judged(check(), vector("NaN", "0")).judged is InspectionResult.FAILED


@pytest.mark.parametrize(
    ("on_empty", "wanted"),
    [
        (OnEmpty.INCONCLUSIVE, InspectionResult.INCONCLUSIVE),
        (OnEmpty.SUCCESS, InspectionResult.PASSED),
        (OnEmpty.FAILURE, InspectionResult.FAILED),
    ],
)
def test_an_empty_answer_says_what_the_check_says_it_does(
    on_empty: OnEmpty, wanted: InspectionResult
) -> None:
    assert judged(check(on_empty=on_empty), vector()).judged is wanted


def test_a_scalar_is_one_value() -> None:
    body = {"status": "success", "data": {"resultType": "scalar", "result": [1.5, "0.5"]}}
    assert judged(check("> 0.4"), json.dumps(body).encode()) == PASSED
    assert judged(check("> 0.6"), json.dumps(body).encode()).judged is InspectionResult.FAILED


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"<html>",
        b"[]",
        b'{"status": "error", "error": "parse error"}',
        b'{"status": "success", "data": {"resultType": "matrix", "result": []}}',
        b'{"status": "success", "data": {"resultType": "vector", "result": [{"value": [1, "x"]}]}}',
        vector("1", warnings=["a store did not answer"]),
    ],
)
def test_what_cannot_be_read_or_is_a_part_only_says_nothing(raw: bytes) -> None:
    assert judged(check(), raw).judged is InspectionResult.INCONCLUSIVE
