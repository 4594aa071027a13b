"""Which probes are worth asking, and whether a rule holds but for the count of its own fault."""

from typing import Any

import pytest
from support.clock import T0
from support.rules_builders import a_condition, a_node, a_rule

from rules.diagnose import Diagnoser, Match
from rules.facts import ProbeFact
from rules.truth import Truth

FAULT: dict[str, Any] = {"condition": {"type": "Fault"}}
FULL: dict[str, Any] = {"probe": {"name": "disk.used_pct", "above": 90}}
COUNT: dict[str, Any] = {"fact": {"name": "kernel.sameFault", "above": 3}}
ALIVE: dict[str, Any] = {"probe": {"name": "host.agent", "equals": "alive"}}


def said(when: Any, unless: Any = None, status: str = "True", **known: Any) -> Match:
    """`known` are answers of probes, `disk__used_pct` for `disk.used_pct`."""
    diagnoser = Diagnoser()
    assert not diagnoser.load([a_rule("a", when=when, unless=unless)]).rejected
    probes = {name.replace("__", "."): ProbeFact(v, T0) for name, v in known.items()}
    node = a_node(a_condition(status=status), probes=probes)
    return diagnoser.diagnose([node], T0)[0].matches[0]


def test_probe_is_asked_only_when_all_other_leaves_hold() -> None:
    both = {"all": [FAULT, FULL]}
    assert said(both).probes == ("disk.used_pct",)
    assert said(both, status="False").probes == ()
    assert said(both, status="Unknown").probes == ()


@pytest.mark.parametrize("when", [{"not": FULL}, {"all": [FAULT, {"not": FULL}]}])
def test_answer_that_must_be_false_is_asked_for_too(when: dict[str, Any]) -> None:
    assert said(when).probes == ("disk.used_pct",)


def test_all_that_is_open_is_asked_at_once() -> None:
    assert said({"all": [FAULT, FULL, ALIVE]}).probes == ("disk.used_pct", "host.agent")


def test_probe_of_a_guard_is_asked_when_the_evidence_holds() -> None:
    assert said(FAULT, FULL).probes == ("disk.used_pct",)
    assert said(FAULT, FULL, status="False").probes == ()
    assert said(FAULT, {"all": [FULL, {"condition": {"type": "Fault"}}]}).probes != ()
    assert said(FAULT, {"any": [FULL, FAULT]}).probes == ()  # the guard holds whatever is said


def test_evidence_that_is_true_without_it_asks_no_probe() -> None:
    assert said({"any": [FAULT, FULL]}).probes == ()
    assert said({"any": [FAULT, FULL]}, status="False").probes == ("disk.used_pct",)


def test_without_a_count_the_others_are_the_evidence() -> None:
    for status in ("True", "False", "Unknown"):
        found = said(FAULT, status=status)
        assert found.others is found.evidence


def test_count_of_the_same_fault_is_left_out_of_the_others() -> None:
    found = said({"all": [FAULT, COUNT]})
    assert (found.evidence, found.others) == (Truth.UNKNOWN, Truth.TRUE)
    assert said({"all": [FAULT, COUNT]}, status="False").others is Truth.FALSE


def test_answered_probe_is_not_asked_again_and_one_that_fits_completes_the_match() -> None:
    two = {"all": [FAULT, FULL, ALIVE]}
    assert said(two, disk__used_pct=95).probes == ("host.agent",)
    assert said(two, disk__used_pct=10).probes == ()  # whatever the other one says
    found = said(two, disk__used_pct=95, host__agent="alive")
    assert (found.evidence, found.probes) == (Truth.TRUE, ())


def test_failed_probe_is_worth_asking_again() -> None:
    assert said({"all": [FAULT, FULL]}, disk__used_pct=None).probes == ("disk.used_pct",)


def test_absence_of_a_probe_s_answer_is_asked_for() -> None:
    assert said({"all": [FAULT, {"absent": FULL}]}).probes == ("disk.used_pct",)


def test_missing_count_keeps_probes_from_being_asked() -> None:
    found = said({"all": [FAULT, COUNT, FULL]})
    assert (found.probes, found.others) == ((), Truth.UNKNOWN)
    found = said({"all": [FAULT, COUNT, FULL]}, disk__used_pct=95)
    assert found.others is Truth.TRUE
