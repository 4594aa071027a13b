"""What a node reports and no rule reads: node.unreadConditions and node.unreadWarnings."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from support.clock import T0
from support.rules_builders import a_condition, a_node, a_rule

from rules.atoms import read
from rules.facts import EventFact, FactSet
from rules.leaves.result import LeafReading
from rules.leaves.unread import LASTS, WITHIN, UnreadReports, index_evidence
from rules.lint.conditions import KNOWN
from rules.polarity import EKS, HEALTHY_WHEN_TRUE, faulty_status
from rules.program import compile_program
from rules.truth import Truth

WORKERS = {"selector": {"matchLabels": {"role": "worker"}}}
CONDITIONS: dict[str, Any] = {"fact": {"name": "node.unreadConditions", "above": 0}}
WARNINGS: dict[str, Any] = {"fact": {"name": "node.unreadWarnings", "above": 0}}
LATER = T0 + LASTS


def reading(
    facts: FactSet, when: dict[str, Any], now: datetime = LATER, **parts: Any
) -> LeafReading:
    """Read `when` as the program of a rule on condition Fault and Event Oops does."""
    known = {"any": [{"condition": {"type": "Fault"}}, {"event": {"reason": "Oops"}}]}
    program = compile_program([a_rule("tell", when=when), a_rule("known", when=known, **parts)])
    atom = next(atom for atom in program.atoms if isinstance(atom, UnreadReports))
    return read(atom, facts, now)


def warnings(*reasons: str, **parts: Any) -> FactSet:
    facts = [
        EventFact(reason, "", parts.get("source", "agent"), parts.get("severity", "Warning"), 1, T0)
        for reason in reasons
    ]
    return a_node(events=facts)


@pytest.mark.parametrize(
    ("type_", "status"),
    [
        ("Ready", "False"),
        ("EtcdIsVoter", "False"),
        ("FabricReady", "False"),
        ("DiskHealthy", "False"),
        ("TimeSynchronized", "False"),
        ("FabricNotReady", "True"),
        ("DiskUnhealthy", "True"),
        ("LinkDisconnected", "True"),
        ("BackplaneProblem", "True"),
        ("MemoryPressure", "True"),
        ("DeprecatedMirrorsField", ""),
        ("FirmwareUpdateInProgress", ""),
        ("RebootScheduled", ""),
    ],
)
def test_faulty_status_follows_table_then_name_then_convention(type_: str, status: str) -> None:
    assert faulty_status(type_) == status


def test_faulty_status_agrees_with_the_table_of_known_types() -> None:
    assert EKS <= HEALTHY_WHEN_TRUE
    assert {t for t in KNOWN if faulty_status(t) == "False"} == HEALTHY_WHEN_TRUE & KNOWN


@pytest.mark.parametrize("type_", ["Odd", "OddProblem"])
def test_unread_condition_counts_once_it_was_faulty_for_its_time(type_: str) -> None:
    facts = a_node(a_condition(type_))
    young = reading(facts, CONDITIONS, LATER - timedelta(seconds=1))
    assert (young.truth, young.flips_at) == (Truth.FALSE, LATER)
    old = reading(facts, CONDITIONS)
    assert (old.truth, old.value) == (Truth.TRUE, 1)
    assert type_ in old.finding


@pytest.mark.parametrize(
    "condition",
    [
        a_condition("Fault"),  # a rule reads it
        a_condition("Odd", "False"),
        a_condition("OddReady", "True"),
        a_condition("OddReady", "Unknown"),
        a_condition("OddUpdateInProgress", "True"),
    ],
)
def test_condition_does_not_count_when_it_is_read_or_healthy(condition: Any) -> None:
    assert reading(a_node(condition), CONDITIONS).truth is Truth.FALSE


def test_condition_counts_when_the_rule_that_reads_it_leaves_the_node_out() -> None:
    facts = a_node(a_condition("Fault"), labels={"role": "control-plane"})
    assert reading(facts, CONDITIONS, nodes=WORKERS).truth is Truth.TRUE


def test_condition_of_a_detector_that_has_just_started_leaves_the_answer_open() -> None:
    fact = a_condition("Odd")
    settling = type(fact)(**{**_fields(fact), "settles": LATER + timedelta(minutes=1)})
    assert reading(a_node(settling), CONDITIONS).truth is Truth.UNKNOWN


def _fields(fact: Any) -> dict[str, Any]:
    return {name: getattr(fact, name) for name in fact.__slots__}


def test_unread_warning_counts_when_one_reason_repeats() -> None:
    found = reading(warnings("Odd", "Odd", "Odd"), WARNINGS, T0)
    assert (found.truth, found.value, found.flips_at) == (Truth.TRUE, 1, T0 + WITHIN)
    assert "Odd" in found.finding


@pytest.mark.parametrize(
    "facts",
    [
        warnings("Odd", "Odd"),
        warnings("Odd", "Strange", "Weird"),
        warnings("Oops", "Oops", "Oops"),  # a rule reads it
        warnings("Odd", "Odd", "Odd", severity="Normal"),
        warnings("Odd", "Odd", "Odd", source="karpenter"),
        warnings("Odd", "Odd", "Odd", source="kubenode-remedy"),
        warnings("Rebooted", "Rebooted", "Rebooted"),
        warnings("Reboot", "Reboot", "Reboot"),  # a HostEvent
        a_node(events=[EventFact("Odd", "", "kubelet", "Warning", 9, T0, about_pod=True)]),
        a_node(events=[EventFact("Odd", "", "kubelet", "Warning", 9, T0, forgotten=True)]),
        a_node(
            a_condition("OddProblem", reason="Odd"),
            events=[EventFact("Odd", "", "agent", "Warning", 9, T0)],
        ),
    ],
)
def test_warning_does_not_count_when_it_is_rare_read_planned_or_of_a_pod(facts: FactSet) -> None:
    assert reading(facts, WARNINGS, T0).truth is Truth.FALSE


def test_unread_warnings_are_unknown_while_the_cache_of_events_is_stale() -> None:
    facts = a_node(stale=frozenset({"Events"}))
    assert reading(facts, WARNINGS, T0).truth is Truth.UNKNOWN


def test_event_leaf_without_a_reason_reads_what_its_message_matches() -> None:
    rule = a_rule("known", when={"event": {"message": "fire"}})
    evidence = index_evidence([rule.remedier])
    assert evidence.reads_event(EventFact("Odd", "on fire", "a", "Warning", 1, T0), {})
    assert not evidence.reads_event(EventFact("Odd", "", "a", "Warning", 1, T0), {})
