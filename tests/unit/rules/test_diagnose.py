"""What is said again without being looked at: it is what looking would give."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.clock import T0
from support.rules_builders import a_condition, a_node, a_rule, seconds
from support.rules_engines import Second, diagnoser_with

from rules.diagnose import Diagnoser, Diagnosis
from rules.facts import EventFact, FactSet

RULES: list[dict[str, Any]] = [
    {"condition": {"type": "Fault", "for": "30s", "maxAge": "60s"}},
    {"absent": {"condition": {"type": "Fault"}, "for": "45s"}},
    {"fact": {"name": "node.podCount", "above": 3}},
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
    return a_node(condition, values={"node.podCount": 2, "node.age": at}, **changes)


def said(found: Diagnosis) -> list[Any]:
    return [(m.rule_id, m.evidence, m.guards, m.agreement, m.true_leaves) for m in found.matches]


def test_heartbeat_is_not_looked_at_again() -> None:
    diagnoser = a_diagnoser()
    first = diagnoser.diagnose([heartbeat(0)], T0)[0]
    again = diagnoser.diagnose([heartbeat(10)], T0 + seconds(10))[0]
    assert again.matches is first.matches


CHANGES: dict[str, dict[str, Any]] = {
    "label": {"labels": {"pool": "gpu"}},
    "taint": {"taints": {"t": ""}},
    "annotation": {"annotations": {"asked": "yes"}},
    "value": {"values": {"node.podCount": 5}},
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
def test_answer_is_always_that_of_looking_anew(history: list[tuple[int, str, int, bool]]) -> None:
    """Each: seconds that pass, the status, how long ago it was heard, whether an Event came."""
    diagnoser, now, since, status = a_diagnoser(), T0, T0, "False"
    events: tuple[EventFact, ...] = ()
    for pause, new_status, ago, occurred in history:
        now += timedelta(seconds=pause)
        since, status = (since if new_status == status else now), new_status
        if occurred:
            events = (*events, EventFact("Oops", "", "", "", 1, now))
        heard = now - seconds(ago)
        node = a_node(a_condition(status=status, since=since, heard=heard), events=events)
        expected = a_diagnoser().diagnose([node], now)[0]
        assert said(diagnoser.diagnose([node], now)[0]) == said(expected)
