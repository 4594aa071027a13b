"""What is said again without being looked at: it is what looking would give."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.clock import T0
from support.rules_builders import a_condition, a_node, a_rule, seconds
from support.rules_engines import Second, diagnoser_with

from rules.diagnose import Agreement, Diagnoser, Diagnosis
from rules.facts import EventFact, FactSet
from rules.truth import Truth

RULES: list[dict[str, Any]] = [
    {"condition": {"type": "Fault", "for": "30s", "maxAge": "60s"}},
    {"absent": {"condition": {"type": "Fault"}, "for": "45s"}},
    {"fact": {"name": "node.gpuCount", "above": 3}},
    {"annotation": {"key": "asked"}},
    {"taint": {"key": "t"}},
    {"event": {"reason": "Oops", "count": 2, "within": "60s"}},
]


def a_diagnoser() -> Diagnoser:
    diagnoser = diagnoser_with(Second())
    rules = [a_rule(f"r{n}", when=when) for n, when in enumerate(RULES)]
    chosen = {"selector": {"matchLabels": {"pool": "gpu"}}}
    assert not diagnoser.load([*rules, a_rule("gpu", nodes=chosen)]).rejected
    return diagnoser


def heartbeat(at: float, **changes: Any) -> FactSet:
    condition = a_condition(status="False", heard=T0 + seconds(at))
    return a_node(condition, values={"node.gpuCount": 2, "node.age": at}, **changes)


def said(found: Diagnosis) -> list[Any]:
    return [(m.rule_id, m.evidence, m.guards, m.agreement, m.true_leaves) for m in found.matches]


def test_heartbeat_is_not_looked_at_again() -> None:
    diagnoser = a_diagnoser()
    first = diagnoser.diagnose([heartbeat(0)], T0)[0]
    again = diagnoser.diagnose([heartbeat(10)], T0 + seconds(10))[0]
    assert again.matches is first.matches


def test_heartbeat_is_not_looked_at_again_without_a_second_engine_either() -> None:
    diagnoser = Diagnoser()
    diagnoser.load([a_rule(f"r{n}", when=when) for n, when in enumerate(RULES)])
    first = diagnoser.diagnose([heartbeat(0)], T0)[0]
    assert {match.agreement for match in first.matches} == {Agreement.UNCHECKED}
    evaluated = diagnoser.check.stats.unchecked
    again = diagnoser.diagnose([heartbeat(10)], T0 + seconds(10))[0]
    assert again.matches is first.matches
    assert diagnoser.check.stats.unchecked == evaluated


def test_nodes_that_say_the_same_share_one_answer_and_match_with_readings_of_their_own() -> None:
    diagnoser = a_diagnoser()
    well = [replace(heartbeat(0), node=f"n{n}") for n in range(2)]
    one, other = diagnoser.diagnose(well, T0)
    assert one.matches is other.matches
    ill = [
        replace(a_node(a_condition(since=T0 - seconds(60), message=f"of {n}")), node=f"n{n}")
        for n in range(2)
    ]
    one, other = diagnoser.diagnose(ill, T0)
    assert one.matches[0].evidence is Truth.TRUE
    assert one.matches[0] == other.matches[0]
    assert one.matches[0].readings


CHANGES: dict[str, dict[str, Any]] = {
    "label": {"labels": {"pool": "gpu"}},
    "taint": {"taints": {"t": ""}},
    "annotation": {"annotations": {"asked": "yes"}},
    "value": {"values": {"node.gpuCount": 5}},
    "stale cache": {"fresh": False},
    "event": {"events": (EventFact("Oops", "", "", "", 2, T0),)},
    "condition gone": {"conditions": {}},
}


@pytest.mark.parametrize("what", CHANGES)
def test_change_is_looked_at(what: str) -> None:
    diagnoser = a_diagnoser()
    diagnoser.diagnose([heartbeat(0)], T0)
    now = T0 + seconds(10)
    changed = replace(heartbeat(10), **CHANGES[what])
    expected = a_diagnoser().diagnose([changed], now)[0]
    assert said(diagnoser.diagnose([changed], now)[0]) == said(expected)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 40),
            st.sampled_from(["True", "False", "Unknown"]),
            st.integers(0, 50),
            st.booleans(),
        ),
        max_size=12,
    )
)
@pytest.mark.exhaustive
def test_answer_is_always_that_of_looking_anew(history: list[tuple[int, str, int, bool]]) -> None:
    """Each: seconds that pass, the status, how long ago it was heard, whether an Event came."""
    diagnoser, anew, now, since, status = a_diagnoser(), a_diagnoser(), T0, T0, "False"
    events: tuple[EventFact, ...] = ()
    for pause, new_status, ago, occurred in history:
        now += timedelta(seconds=pause)
        since, status = (since if new_status == status else now), new_status
        if occurred:
            events = (*events, EventFact("Oops", "", "", "", 1, now))
        heard = now - seconds(ago)
        node = a_node(a_condition(status=status, since=since, heard=heard), events=events)
        anew.forget()
        expected = anew.diagnose([node], now)[0]
        assert said(diagnoser.diagnose([node], now)[0]) == said(expected)
