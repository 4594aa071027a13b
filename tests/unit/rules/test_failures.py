"""Failures that others had, as far as the rule language owns them: the names are the scenarios."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pytest
from support.clock import T0
from support.rules_builders import a_condition, a_node, a_rule, seconds

from kubenode.api.meta import LabelSelector, NodeSelection
from kubenode.api.v1alpha1 import Expression
from kubenode.api.v1alpha1.leaves import HostEventLeaf
from kubenode.runtime.hosttime import host_time
from remedy.remedier.decide import Candidate, Subject, decide
from rules.diagnose import Diagnoser, Match
from rules.facts import FactSet, ProbeFact, Value
from rules.history import MOST_EVENTS, ConditionClock, ConditionReading, EventWindow
from rules.program import RuleVersion
from rules.truth import Truth

DAY = 86_400
LATCHED = {"condition": {"type": "KernelDeadlock", "for": "30s"}}


def said(facts: FactSet, after: float, *rules: RuleVersion) -> Mapping[str, Match]:
    """What each rule says of the node, so many seconds after T0."""
    diagnoser = Diagnoser()
    report = diagnoser.load(rules)
    assert not report.rejected
    (diagnosis,) = diagnoser.diagnose([facts], T0 + seconds(after))
    return {match.rule_id: match for match in diagnosis.matches}


def latched(heard: float, **parts: Any) -> FactSet:
    """True since one line at boot; its detector was last heard from so many seconds after T0."""
    return a_node(a_condition("KernelDeadlock", heard=T0 + seconds(heard)), **parts)


# -- F02: one log line at boot sets a condition which nothing clears ------------------------------


def test_f02_latched_condition_of_a_silent_detector_matches_nothing() -> None:
    rule = a_rule("replace", when=LATCHED)
    assert said(latched(60), 90, rule)["replace"].evidence is Truth.TRUE
    assert said(latched(60), 3 * DAY, rule)["replace"].evidence is Truth.UNKNOWN


@pytest.mark.parametrize(
    ("answer", "evidence"),
    [(True, Truth.TRUE), (False, Truth.FALSE), (None, Truth.UNKNOWN)],
    ids=["still hung", "healthy now", "failed"],
)
def test_f02_latched_condition_with_a_probe_is_what_the_host_says_now(
    answer: Value | None, evidence: Truth
) -> None:
    """The detector lives and repeats its old finding for three days."""
    when = {"all": [LATCHED, {"probe": {"name": "host.d_state_process"}}]}
    now = 3 * DAY
    asked = {"host.d_state_process": ProbeFact(answer, T0 + seconds(now - 10))}
    facts = latched(now - 60, probes=asked)
    assert said(facts, now, a_rule("replace", when=when))["replace"].evidence is evidence


def test_f02_latched_condition_without_an_answer_matches_nothing_but_asks() -> None:
    when = {"all": [LATCHED, {"probe": {"name": "host.d_state_process"}}]}
    found = said(latched(3 * DAY - 60), 3 * DAY, a_rule("replace", when=when))["replace"]
    assert found.evidence is Truth.UNKNOWN
    assert found.probes == ("host.d_state_process",)
    old = latched(
        3 * DAY - 60, probes={"host.d_state_process": ProbeFact(True, T0 + seconds(3 * DAY - 60))}
    )
    found = said(old, 3 * DAY, a_rule("replace", when=when))["replace"]
    assert found.evidence is Truth.UNKNOWN, "an answer of a minute ago is none"


def test_f02_start_of_the_detector_neither_heals_a_fault_nor_makes_one() -> None:
    clock = ConditionClock()

    def post(at: float, status: str, moved: float) -> FactSet:
        when = T0 + seconds(at)
        stamps = host_time(T0 + seconds(moved)), host_time(when)
        reports = [
            ConditionReading("KernelDeadlock", status, "R", "", *stamps),
            ConditionReading("ReadonlyFilesystem", "False", "ok", "", *stamps),
        ]
        clock.take(reports, when)
        return a_node(*clock.facts().values())

    rule = a_rule("replace", when=LATCHED)
    clock.take(
        [
            ConditionReading("KernelDeadlock", "True", "R", "", host_time(T0), host_time(T0)),
            ConditionReading("ReadonlyFilesystem", "False", "ok", "", host_time(T0), host_time(T0)),
        ],
        T0,
    )
    started = post(100, "False", 100)
    assert said(started, 100, rule)["replace"].evidence is Truth.UNKNOWN
    assert said(started, 280, rule)["replace"].evidence is Truth.FALSE


# -- F04: a node that is still bootstrapping looks broken -----------------------------------------


def begins_at(node: Subject, after: float) -> datetime:
    """When the job may begin that is made so many seconds after T0."""
    rule = a_rule("young").remedier
    candidate = Candidate("young", rule, Truth.FALSE, False, T0)
    now = T0 + seconds(after)
    (order,) = decide(node, [candidate], (), now).orders
    return order.wait.not_before if order.wait is not None else now


GRACE = a_rule("young").remedier.spec.startup_grace


def test_f04_no_job_on_a_new_node_begins_within_its_grace() -> None:
    born = Subject("n1", "u1", created=T0, booted_at=None, first_match=T0)
    grace = GRACE.total_seconds()
    for after, begins in ((0, grace), (grace - 1, grace), (grace, grace)):
        assert begins_at(born, after) == T0 + seconds(begins)


def test_f04_no_job_on_a_rebooted_node_begins_within_its_grace() -> None:
    booted = Subject("n1", "u1", T0 - seconds(DAY), booted_at=T0, first_match=T0)
    assert begins_at(booted, 60) == T0 + GRACE


@pytest.mark.parametrize(
    ("age", "guards"), [(599.0, Truth.TRUE), (600.0, Truth.FALSE), (None, Truth.UNKNOWN)]
)
def test_f04_guard_on_the_age_of_a_node_holds_while_it_is_young_or_unknown(
    age: float | None, guards: Truth
) -> None:
    young = {"fact": {"name": "node.age", "below": 600}}
    facts = a_node(a_condition(), values={"node.age": age})
    assert said(facts, 60, a_rule("r", unless=young))["r"].guards is guards


def test_f04_guard_on_the_age_of_a_node_is_looked_at_again_when_it_is_over() -> None:
    young = {"fact": {"name": "node.age", "below": 600}}
    diagnoser = Diagnoser()
    diagnoser.load([a_rule("r", unless=young)])
    facts = a_node(a_condition(), values={"node.age": 400.0})
    (diagnosis,) = diagnoser.diagnose([facts], T0)
    assert diagnosis.flips_at == T0 + seconds(200)


# -- F06: an empty selector means all -------------------------------------------------------------

EVERYTHING: dict[str, dict[str, Any]] = {
    "no condition in all": {"when": Expression.model_construct(all=[])},
    "no condition in any": {"when": Expression.model_construct(any=[])},
    "no leaf": {"when": Expression.model_construct()},
    "not of nothing": {"when": Expression.model_construct(not_=Expression.model_construct(any=[]))},
    "guards that never hold": {"unless": Expression.model_construct(any=[])},
    "any host event": {
        "when": Expression.model_construct(host_event=HostEventLeaf.model_construct())
    },
    "no nodes": {"nodes": NodeSelection.model_construct()},
    "empty selector": {
        "nodes": NodeSelection.model_construct(selector=LabelSelector.model_construct())
    },
}


@pytest.mark.parametrize("what", EVERYTHING)
def test_f06_rule_that_asks_for_nothing_is_refused_and_matches_no_node(what: str) -> None:
    """It got past the API: stored before a check existed, or made by hand."""
    rule = a_rule("bad")
    for name, value in EVERYTHING[what].items():
        setattr(rule.remedier.spec, name, value)
    diagnoser = Diagnoser()
    report = diagnoser.load([rule, a_rule("good")])
    assert set(report.rejected) == {"bad"}
    (diagnosis,) = diagnoser.diagnose([a_node(a_condition())], T0)
    assert [match.rule_id for match in diagnosis.matches] == ["good"]


def test_f06_selector_that_fits_no_node_matches_nothing() -> None:
    nobody = {"selector": {"matchLabels": {"pool": "gone"}}}
    assert not said(a_node(a_condition()), 0, a_rule("r", nodes=nobody))


def test_f06_count_of_the_same_fault_never_counts_every_node() -> None:
    many = {"fact": {"name": "cluster.sameFault", "above": 3}}
    report = Diagnoser().load([a_rule("bad", when=many)])
    assert "spec.when.fact" in report.rejected["bad"]


# -- what is sent to us -------------------------------------------------------------------------


def test_message_of_a_mebibyte_is_clipped_and_invalid_text_is_searched() -> None:
    window, clock = EventWindow(), ConditionClock()
    huge, broken = "x" * (1 << 20), b"\xff\xfe oops \xf0".decode(errors="surrogateescape")
    for n, text in enumerate((huge, broken)):
        window.hear(
            f"e{n}", reason=text, message=text, source="s", severity="Warning", count=1, at=T0
        )
        clock.take(
            [ConditionReading("Fault", "True", text, text, host_time(T0), host_time(T0))], T0
        )
    assert all(len(e.message) <= 1024 and len(e.reason) <= 1024 for e in window.facts(T0))
    facts = a_node(*clock.facts().values(), events=window.facts(T0))
    rules = [
        a_rule("event", when={"event": {"message": "oops"}}),
        a_rule("condition", when={"condition": {"type": "Fault", "message": " oops "}}),
        a_rule("other", when={"condition": {"type": "Fault", "reason": "x{900}"}}),
    ]
    found = {rule: match.evidence for rule, match in said(facts, 0, *rules).items()}
    assert found == {"event": Truth.TRUE, "condition": Truth.TRUE, "other": Truth.FALSE}


@pytest.mark.exhaustive
def test_flood_of_events_is_bounded() -> None:
    window = EventWindow()
    for n in range(5000):
        at = T0 + seconds(n / 100)
        window.hear(
            f"e{n}", reason=f"R{n}", message="m", source="s", severity="Normal", count=1, at=at
        )
    assert len(window.facts(T0 + seconds(60))) <= MOST_EVENTS + 1


def test_expression_that_would_backtrack_for_ever_takes_no_time() -> None:
    trap = {"condition": {"type": "Fault", "message": "(a|aa)+$"}}
    facts = a_node(a_condition(message="a" * 1000 + "b"))
    assert said(facts, 0, a_rule("r", when=trap))["r"].evidence is Truth.FALSE
