"""Which HostEvents a job names as its evidence, and its deadline."""

from datetime import datetime, timedelta
from typing import Any

from support.clock import T0

from kubenode.api.v1alpha1 import Expression
from remedy.remedier.events import deadline, evidence_events
from rules.facts import HostEventFact

HOUR = timedelta(hours=1)


def a_fact(name: str, **changes: Any) -> HostEventFact:
    given: dict[str, Any] = {
        "name": name,
        "class_": "Reboot",
        "source": "AWS",
        "phase": "Scheduled",
        "severity": "Warning",
        "message": "",
        "first_observed_at": T0 - HOUR,
        "last_observed_at": T0,
        "not_before": T0 + HOUR,
    }
    return HostEventFact(**{**given, **changes})


def named(when: dict[str, Any], *events: HostEventFact) -> list[str]:
    return [e.name for e in evidence_events(Expression.model_validate(when), events, T0)]


REBOOT = {"hostEvent": {"class": "Reboot", "startsWithin": "2h"}}


def test_only_events_that_the_rule_counts_are_named_the_most_urgent_first() -> None:
    events = (
        a_fact("later", not_before=T0 + 90 * timedelta(minutes=1)),
        a_fact("soon", not_before=T0 + timedelta(minutes=10)),
        a_fact("far-away", not_before=T0 + 3 * HOUR),
        a_fact("over", phase="Completed"),
        a_fact("another", class_="Freeze"),
    )
    assert named(REBOOT, *events) == ["soon", "later"]


def test_events_within_a_combination_are_evidence_too_and_absent_ones_are_not() -> None:
    condition = {"condition": {"type": "Ready", "status": "True"}}
    assert named({"all": [condition, REBOOT]}, a_fact("one")) == ["one"]
    assert named({"absent": REBOOT}, a_fact("one")) == []


def test_a_rule_without_such_a_leaf_names_none() -> None:
    assert named({"condition": {"type": "Ready", "status": "True"}}, a_fact("one")) == []


def test_the_deadline_is_the_first_planned_beginning() -> None:
    soon: datetime = T0 + timedelta(minutes=10)
    events = [a_fact("a"), a_fact("b", not_before=soon), a_fact("c", not_before=None)]
    assert deadline(events) == soon
    assert deadline([a_fact("a", phase="Active", not_before=None)]) == T0 - HOUR
    assert deadline([a_fact("a", class_="HardwareFault")]) is None
    assert deadline([a_fact("a", class_="of a later version", phase="new")]) is None
    assert deadline([]) is None


def test_no_more_are_named_than_a_job_can_hold() -> None:
    assert len(named(REBOOT, *(a_fact(f"e{n}") for n in range(40)))) == 16
