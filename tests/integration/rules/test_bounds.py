"""Too many rules, endless patterns, cycles, huge messages, bytes that are no text: all bounded."""

import json
import resource
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.clock import T0
from support.rules_builders import a_condition, a_node, a_rule, seconds
from support.rules_engines import CHILD, Children

from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.runtime.child import ChildProcess
from rules.diagnose import Agreement, Diagnoser
from rules.history import CLIP, ConditionClock, ConditionReading, EventWindow
from rules.load_limits import MOST_RULES, MOST_TERMS
from rules.program import RuleVersion
from rules.truth import Truth

pytestmark = pytest.mark.integration
MEBIBYTE = 1 << 20
EVIL = "(x+x+)+y"
"""Takes for ever where expressions are matched by trying."""


@pytest.fixture
def diagnoser() -> Iterator[Diagnoser]:
    made = Diagnoser(lambda: ChildProcess(CHILD))
    yield made
    made.close()


def took(work: Callable[[], object]) -> float:
    """Seconds of processor time."""
    began = time.process_time()
    work()
    return time.process_time() - began


def held() -> int:
    """Bytes, the most that this process held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def on_two(name: str, number: int) -> RuleVersion:
    """A rule with leaves of its own."""
    leaves = [{"condition": {"type": f"T{number}"}}, {"label": {"key": f"k{number}"}}]
    return a_rule(name, when={"all": leaves}, unless={"annotation": {"key": f"a{number}"}})


def test_pattern_that_backtracks_for_ever_elsewhere_takes_its_time_once(
    diagnoser: Diagnoser,
) -> None:
    rules = [
        a_rule("condition", when={"condition": {"type": "Fault", "message": EVIL}}),
        a_rule("event", when={"event": {"message": EVIL}}),
        a_rule("alert", when={"alert": {"name": EVIL}}),
    ]
    assert not diagnoser.load(rules).rejected
    node = a_node(a_condition(message="x" * CLIP))
    assert took(lambda: diagnoser.diagnose([node], T0)) < 0.5
    assert diagnoser.diagnose([node], T0)[0].matches[0].evidence is not Truth.TRUE


@pytest.mark.parametrize("pattern", ["(a{1000}){1000}", "(" * 1000, "(?P<x>a)\\1", "(?=a)"])
def test_pattern_that_is_too_large_or_no_re2_is_refused_with_its_reason(pattern: str) -> None:
    leaf = {"condition": {"type": "Fault", "message": pattern}}
    with pytest.raises(ValueError, match=r"no RE2 expression|at most 512"):
        a_rule("a", when=leaf)


def test_ten_thousand_rules_are_bounded_and_those_left_out_are_told(diagnoser: Diagnoser) -> None:
    """The models of 10,000 rules are made before: their cost is the API's."""
    rules = [on_two(f"r{n:05}", n) for n in range(10_000)]
    before = held()
    reports: list[Any] = []
    seconds_ = took(lambda: reports.append(diagnoser.load(rules)))
    (report,) = reports
    assert len(report.rejected) == 10_000 - MOST_RULES
    assert f"more than {MOST_RULES} rules" in report.rejected["r09999"]
    assert seconds_ < 20
    assert held() - before < 200_000_000
    assert diagnoser.check.trouble == ""
    assert diagnoser.check.durable is not None
    diagnoser.diagnose([a_node(a_condition("T0"), labels={"k0": ""})], T0)
    assert diagnoser.check.durable.memory_bytes < 400_000_000


def test_rules_that_were_loaded_keep_their_place_when_too_many_come() -> None:
    diagnoser = Diagnoser()
    diagnoser.load([on_two("zz-old", 0)])
    newer = [on_two(f"r{n:05}", n + 1) for n in range(MOST_RULES)]
    report = diagnoser.load([*newer, on_two("zz-old", 0)])
    assert set(report.rejected) == {newer[-1].id}


def test_reader_of_a_fact_that_found_no_room_is_refused_too() -> None:
    diagnoser = Diagnoser()
    reader = a_rule("reader", when={"not": {"fact": {"name": "d.late"}}})
    many = [on_two(f"r{n:05}", n) for n in range(MOST_RULES - 1)]
    late = a_rule("late", infer={"fact": "d.late"})
    rejected = diagnoser.load([reader, *many, late]).rejected
    assert set(rejected) == {"late", "reader"}
    assert "was refused" in rejected["reader"]


def test_alternatives_of_all_rules_together_are_bounded() -> None:
    """64 alternatives each, as many as one rule may have."""

    def wide(n: int) -> RuleVersion:
        pairs = [{"any": [{"label": {"key": f"k{n}.{i}.{k}"}} for k in range(2)]} for i in range(6)]
        return a_rule(f"wide{n:04}", when={"all": pairs})

    count = MOST_TERMS // 64 + 5
    rejected = Diagnoser().load([wide(n) for n in range(count)]).rejected
    assert 0 < len(rejected) < count
    assert all(f"more than {MOST_TERMS} alternatives" in why for why in rejected.values())


def test_cycle_is_refused_and_names_its_way(diagnoser: Diagnoser) -> None:
    circle = [
        a_rule(
            f"c{n}",
            when={"fact": {"name": f"d.f{(n + 1) % 200}"}},
            infer={"fact": f"d.f{n}"},
        )
        for n in range(200)
    ]
    report = diagnoser.load([*circle, a_rule("good")])
    assert "good" not in report.rejected and len(report.rejected) == 200
    assert any("cycle" in why for why in report.rejected.values())
    found = diagnoser.diagnose([a_node(a_condition())], T0)[0].matches
    assert [(m.rule_id, m.agreement) for m in found] == [("good", Agreement.AGREED)]


def test_message_of_a_mebibyte_is_clipped_before_any_rule_reads_it(diagnoser: Diagnoser) -> None:
    huge = "x" * MEBIBYTE + "y"
    clock, window = ConditionClock(), EventWindow()
    clock.take([ConditionReading("Fault", "True", huge, huge, None, None)], T0)
    window.hear("u", reason="Oops", message=huge, source=huge, severity="Warning", count=1, at=T0)
    (condition,), (event,) = clock.facts().values(), window.facts(T0)
    assert max(map(len, (condition.reason, condition.message, event.message))) <= CLIP
    rules = [
        a_rule("end", when={"condition": {"type": "Fault", "message": "y$"}}),
        a_rule("any", when={"event": {"message": "^x+$"}}),
    ]
    diagnoser.load(rules)
    node = a_node(condition, events=(event,))
    found = {m.rule_id: m.evidence for m in diagnoser.diagnose([node], T0)[0].matches}
    assert found == {"end": Truth.FALSE, "any": Truth.TRUE}


def test_message_of_a_mebibyte_that_nobody_clipped_costs_no_more_than_its_length(
    diagnoser: Diagnoser,
) -> None:
    diagnoser.load([a_rule("a", when={"condition": {"type": "Fault", "message": EVIL}})])
    node = a_node(a_condition(message="x" * MEBIBYTE))
    assert took(lambda: diagnoser.diagnose([node], T0)) < 2


NOT_UTF_8 = json.loads('"bad \\ud800 byte"')


def test_bytes_that_are_no_utf_8_break_nothing_and_other_rules_still_act(
    diagnoser: Diagnoser,
) -> None:
    rules = [
        a_rule("message", when={"condition": {"type": "Fault", "message": "bad . byte"}}),
        a_rule("event", when={"event": {"message": "byte$"}}),
        a_rule("label", when={"label": {"key": "k", "value": "v"}}),
        a_rule("good"),
    ]
    diagnoser.load(rules)
    window = EventWindow()
    window.hear("u", reason=NOT_UTF_8, message=NOT_UTF_8, source="", severity="", count=1, at=T0)
    node = a_node(a_condition(message=NOT_UTF_8), events=window.facts(T0), labels={"k": NOT_UTF_8})
    for later in (0, 1):  # looked at for the first time, and again
        found = diagnoser.diagnose([node], T0 + seconds(later))[0].matches
        assert {m.rule_id: m.evidence for m in found} == {
            "message": Truth.TRUE,
            "event": Truth.TRUE,
            "label": Truth.FALSE,
            "good": Truth.TRUE,
        }
        assert {m.agreement for m in found} == {Agreement.AGREED}


def test_user_text_never_reaches_the_second_engine() -> None:
    asked: list[bytes] = []

    class Heard(ChildProcess):
        def send(self, data: bytes, seconds: float) -> None:
            asked.append(data)
            super().send(data, seconds)

    diagnoser = Diagnoser(lambda: Heard(CHILD))
    try:
        spec = a_rule("secret-name").remedier.model_dump(by_alias=True, exclude_none=True)
        spec["spec"]["when"] = {"condition": {"type": "SecretType", "message": "secret.*"}}
        diagnoser.load([RuleVersion("secret-name", NodeRemedier.from_user(spec))])
        diagnoser.diagnose([a_node(a_condition("SecretType", message="secret"))], T0)
        assert asked and not any(b"ecret" in data for data in asked)
    finally:
        diagnoser.close()


def test_canary_of_twice_the_rules_asks_twice_as_much() -> None:
    def facts(count: int) -> int:
        asked = [0]

        class Counted(ChildProcess):
            def send(self, data: bytes, seconds: float) -> None:
                asked[0] += len(json.loads(data[4:]).get("asked", ()))
                super().send(data, seconds)

        diagnoser = Diagnoser(lambda: Counted(CHILD))
        try:
            assert not diagnoser.load([on_two(f"r{n}", n) for n in range(count)]).rejected
        finally:
            diagnoser.close()
        return asked[0]

    few, many = facts(50), facts(200)
    assert many < 4.4 * few


def test_children_are_not_left_behind_by_a_load_of_too_much() -> None:
    children = Children()
    diagnoser = Diagnoser(children)
    diagnoser.load([on_two(f"r{n}", n) for n in range(300)])
    diagnoser.close()
    assert all(child._process.poll() is not None for child in children.all)
