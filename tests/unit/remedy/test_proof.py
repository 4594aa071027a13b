"""Proof: known to be over by reports made since the repair, and nothing less."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from support.clock import T0

from kubenode.api.v1alpha1 import Expression
from remedy.remedier.proof import Since, gone, settled
from rules.condition_clock import SETTLE
from rules.facts import ConditionFact, FactSet
from rules.truth import Truth

ACTED = T0
BEFORE, AFTER = T0 - timedelta(minutes=1), T0 + timedelta(minutes=1)
NOW = T0 + timedelta(minutes=2)
SICK = {"condition": {"type": "Sick", "status": "True", "for": "30s", "maxAge": "10m"}}
DEAD = {"condition": {"type": "Dead", "status": "True", "maxAge": "10m"}}


def facts(fresh: bool = True, **conditions: tuple[str, datetime, datetime]) -> FactSet:
    """Each condition is (status, since, heard)."""
    found = {
        type_: ConditionFact(type_, status, "", "", since, heard)
        for type_, (status, since, heard) in conditions.items()
    }
    return FactSet("n1", "uid", conditions=found, labels={"role": "gpu"}, fresh=fresh)


def proven(when: dict[str, Any], known: FactSet, cleared: dict[str, Any] | None = None) -> Truth:
    read = Expression.model_validate
    return gone(read(when), read(cleared) if cleared else None, known, NOW, Since(ACTED, ACTED))


@pytest.mark.parametrize(
    ("status", "heard", "wanted"),
    [
        ("False", AFTER, Truth.TRUE),
        ("False", BEFORE, Truth.UNKNOWN),
        ("False", ACTED.replace(microsecond=0), Truth.TRUE),
        ("True", AFTER, Truth.FALSE),
        ("Unknown", AFTER, Truth.UNKNOWN),
    ],
)
def test_only_a_report_since_the_act_proves(status: str, heard: datetime, wanted: Truth) -> None:
    assert proven(SICK, facts(Sick=(status, BEFORE, heard))) is wanted


@pytest.mark.parametrize(
    ("since", "heard", "wanted"),
    [
        (4, 4, Truth.TRUE),
        (0, 4, Truth.TRUE),
        (-1, 4, Truth.UNKNOWN),
        (-1, 9, Truth.UNKNOWN),
        (-1, 10, Truth.TRUE),
    ],
)
def test_what_became_well_during_the_act_need_not_be_said_again(
    since: int, heard: int, wanted: Truth
) -> None:
    """The act has its effect before its end is known, and a heartbeat comes every five minutes."""
    began, acted = T0, T0 + timedelta(seconds=10)
    turned, said = T0 + timedelta(seconds=since), T0 + timedelta(seconds=heard)
    known = facts(Sick=("False", turned, said))
    assert gone(WHEN_SICK, None, known, NOW, Since(began, acted)) is wanted
    booted = Since(began, acted, settled=acted + timedelta(seconds=1))
    assert gone(WHEN_SICK, None, known, NOW, booted) is Truth.UNKNOWN
    sick = facts(Sick=("True", turned, said))
    assert gone(WHEN_SICK, None, sick, NOW, Since(began, acted)) is not Truth.TRUE


def test_a_fault_that_came_back_a_second_ago_is_there() -> None:
    """The rule would not match yet, but that is no proof."""
    assert proven(SICK, facts(Sick=("True", NOW, NOW))) is Truth.FALSE


def test_f03_a_detector_that_says_nothing_proves_nothing() -> None:
    assert proven(SICK, facts()) is Truth.UNKNOWN
    assert proven(SICK, facts(fresh=False, Sick=("False", AFTER, AFTER))) is Truth.UNKNOWN


def test_of_several_faults_each_must_be_known_gone() -> None:
    both = {"any": [SICK, DEAD]}
    healthy, silent = ("False", BEFORE, AFTER), ("False", BEFORE, BEFORE)
    assert proven(both, facts(Sick=healthy, Dead=healthy)) is Truth.TRUE
    assert proven(both, facts(Sick=healthy, Dead=silent)) is Truth.UNKNOWN
    assert proven({"all": [SICK, DEAD]}, facts(Sick=healthy, Dead=silent)) is Truth.TRUE


def test_what_selects_is_no_fault_that_could_go() -> None:
    when = {"all": [SICK, {"label": {"key": "role", "value": "gpu"}}]}
    assert proven(when, facts(Sick=("False", BEFORE, AFTER))) is Truth.TRUE


def test_a_rule_may_name_its_own_proof() -> None:
    cleared = {"condition": {"type": "Ready", "status": "True"}}
    sick = ("True", BEFORE, AFTER)
    assert proven(SICK, facts(Sick=sick, Ready=("True", BEFORE, AFTER)), cleared) is Truth.TRUE
    assert proven(SICK, facts(Ready=("True", BEFORE, BEFORE)), cleared) is Truth.UNKNOWN


def test_not_is_read_the_other_way_round() -> None:
    when = {"not": {"condition": {"type": "Ready", "status": "True", "maxAge": "10m"}}}
    assert proven(when, facts(Ready=("True", BEFORE, AFTER))) is Truth.TRUE
    assert proven(when, facts(Ready=("False", BEFORE, AFTER))) is Truth.FALSE


WHEN_SICK = Expression.model_validate(SICK)
WHEN_NOT_READY = Expression.model_validate(
    {"not": {"condition": {"type": "Ready", "status": "True", "maxAge": "10m"}}}
)


@pytest.mark.parametrize("settles", [AFTER, NOW + timedelta(minutes=1)])
def test_what_says_that_all_is_well_counts_only_once_host_and_detector_have_settled(
    settles: datetime,
) -> None:
    """A finding of the fault counts at once."""
    booted = Since(ACTED, ACTED, settles)
    early = AFTER - timedelta(seconds=1)
    wanted = Truth.UNKNOWN
    assert gone(WHEN_SICK, None, facts(Sick=("False", BEFORE, early)), NOW, booted) is wanted
    assert gone(WHEN_NOT_READY, None, facts(Ready=("True", BEFORE, early)), NOW, booted) is wanted
    for when, sick in (
        (WHEN_SICK, facts(Sick=("True", BEFORE, early))),
        (WHEN_NOT_READY, facts(Ready=("False", BEFORE, early))),
    ):
        assert gone(when, None, sick, NOW, booted) is Truth.FALSE


def test_a_detector_that_has_just_started_finds_nothing_whatever_it_reports() -> None:
    settles = AFTER + SETTLE
    started = ConditionFact("Sick", "False", "", "", AFTER, AFTER, settles)
    known = FactSet("n1", "uid", conditions={"Sick": started})
    since = Since(ACTED, ACTED, settle=timedelta(minutes=3))
    assert gone(WHEN_SICK, None, known, AFTER, since) is Truth.UNKNOWN
    assert not settled(WHEN_SICK, known, AFTER) and settled(WHEN_SICK, known, settles)
    later = AFTER + timedelta(minutes=3)
    heard = FactSet("n1", "uid", conditions={"Sick": replace(started, received_at=later)})
    assert gone(WHEN_SICK, None, heard, later, since) is Truth.TRUE


def test_a_rule_may_say_that_its_detector_settles_sooner() -> None:
    started = ConditionFact("Sick", "False", "", "", AFTER, AFTER, AFTER + SETTLE)
    since = Since(ACTED, ACTED, settle=timedelta(minutes=1))
    soon, early = AFTER + timedelta(minutes=1), AFTER + timedelta(seconds=59)
    for now, wanted in ((early, Truth.UNKNOWN), (soon, Truth.TRUE)):
        known = FactSet("n1", "uid", conditions={"Sick": replace(started, received_at=now)})
        assert gone(WHEN_SICK, None, known, now, since) is wanted


# -- evidence about readiness ----------------------------------------------------------------------


def ready(status: str, **more: Any) -> dict[str, Any]:
    return {"condition": {"type": "Ready", "status": status, **more}}


ABOUT_READINESS: dict[str, dict[str, Any]] = {
    "silent": ready("Unknown", **{"for": "1m"}),
    "not ready": ready("False"),
    "message": ready("False", message="PLEG is not healthy"),
    "any": {"any": [ready("Unknown"), ready("False", reason="x")]},
    "all": {"all": [ready("Unknown"), SICK]},
    "for": {"fact": {"name": "node.notReadyFor", "above": 300}},
    "lease": {"fact": {"name": "node.leaseAge", "above": 15}},
}


@pytest.mark.parametrize("cleared", [None, {"fact": {"name": "node.leaseAge", "below": 15}}])
@pytest.mark.parametrize("name", ABOUT_READINESS)
def test_a_node_that_is_not_ready_is_not_healed_when_the_evidence_is_about_readiness(
    name: str, cleared: dict[str, Any] | None
) -> None:
    when = ABOUT_READINESS[name]
    for status in ("False", "Unknown", "True"):
        known = facts(Ready=(status, AFTER, AFTER), Sick=("False", AFTER, AFTER))
        known = replace(known, values={"node.leaseAge": 1.0, "node.notReadyFor": 2.0})
        assert (proven(when, known, cleared) is Truth.TRUE) is (status == "True")
    before = facts(Ready=("True", BEFORE, BEFORE), Sick=("False", AFTER, AFTER))
    assert proven(when, before, cleared) is not Truth.TRUE, "not reported since the act"
    unknown = facts(Sick=("False", AFTER, AFTER))
    assert proven(when, unknown, cleared) is not Truth.TRUE, "no word about readiness at all"


@pytest.mark.parametrize("when", [SICK, {"all": [SICK, ready("True")]}])
def test_other_evidence_is_over_although_the_node_is_not_ready(when: dict[str, Any]) -> None:
    known = facts(Ready=("False", AFTER, AFTER), Sick=("False", AFTER, AFTER))
    assert proven(when, known) is Truth.TRUE
