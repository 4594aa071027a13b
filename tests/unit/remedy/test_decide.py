"""Which job a node gets: choice, waits, memory. Everything from what is given, nothing kept."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from support.clock import T0
from support.remedy_builders import DRAIN, RESTART, WHEN

from kubenode.api.v1alpha1 import JobPhase, NodeRemedier
from remedy.job.model import CloseReason
from remedy.remedier.decide import Candidate, Decision, Subject, WaitReason, decide, job_name
from remedy.remedier.past import Past
from rules.truth import Truth

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
LONG_AGO = T0 - timedelta(days=30)


def a_rule(name: str = "runtime", **spec: Any) -> NodeRemedier:
    given = {
        "mode": "Enforce",
        "faultClass": "runtime_unhealthy",
        "nodes": {"all": True},
        "when": WHEN,
        "ladder": [RESTART, DRAIN],
        "groupWait": "0s",
    }
    metadata = {"name": name, "uid": f"uid-{name}", "generation": 1}
    return NodeRemedier.model_validate({"metadata": metadata, "spec": {**given, **spec}})


def a_candidate(rule: NodeRemedier | None = None, **changes: Any) -> Candidate:
    rule = rule or a_rule()
    rule_id = f"{rule.metadata.name}@{rule.metadata.generation}"
    base = Candidate(rule_id, rule, Truth.FALSE, disputed=False, since=T0 - MINUTE)
    return replace(base, **changes)


NODE = Subject("n1", "uid-1", LONG_AGO, None, T0)


def a_past(name: str = "n1-old", **changes: Any) -> Past:
    base = Past(
        name=name,
        node_uid="uid-1",
        remedier="runtime",
        fault_class="runtime_unhealthy",
        phase=JobPhase.SUCCEEDED,
        created=T0 - 60 * MINUTE,
        acted=True,
        acted_at=T0 - 55 * MINUTE,
        closed=T0 - 50 * MINUTE,
        reason=CloseReason.PROVEN,
    )
    return replace(base, **changes)


def why(decision: Decision) -> dict[str, WaitReason]:
    assert decision.orders == ()
    return dict(decision.waits)


def test_one_job_per_incident_however_often_it_is_decided() -> None:
    first = decide(NODE, [a_candidate()], [], T0)
    again = decide(NODE, [a_candidate()], [], T0 + 5 * MINUTE)
    assert [o.name for o in first.orders] == [o.name for o in again.orders]
    after = decide(NODE, [a_candidate()], [a_past()], T0)
    assert after.orders[0].name != first.orders[0].name


def test_an_open_job_of_the_node_is_the_only_one() -> None:
    for phase in JobPhase:
        past = a_past(phase=phase, closed=None, reason=None)
        made = decide(NODE, [a_candidate()], [past], T0 + 60 * MINUTE).orders
        assert bool(made) == phase.closed, phase


def test_the_name_fits_a_label_and_tells_the_node() -> None:
    assert job_name("n00042", "u", "").startswith("n00042-")
    long = job_name("ip-10-3-242-179." * 10, "u", "")
    assert len(long) <= 63 and ".-" not in long
    assert job_name("n", "u", "x") != job_name("n", "u", "x", "shadow-rule")


def test_waits_for_a_stronger_rule_after_the_first_match() -> None:
    candidate = a_candidate(a_rule(groupWait="10s"))
    (early,) = decide(NODE, [candidate], [], T0 + 9 * SECOND).orders
    assert early.wait is not None
    assert (early.wait.not_before, early.wait.reason) == (T0 + 10 * SECOND, "GroupWait")
    (late,) = decide(NODE, [candidate], [], T0 + 10 * SECOND).orders
    assert late.wait is None


def test_the_strongest_of_the_matching_rules_wins_and_the_losers_are_named() -> None:
    strong, weak = a_candidate(a_rule("strong")), a_candidate(a_rule("weak"))
    (order,) = decide(NODE, [strong, weak], [], T0).orders
    assert order.candidate.name == "strong"
    assert order.others == (("weak", "a stronger rule matched"),)


def test_a_guard_keeps_one_rule_back_and_lets_the_next_have_its_turn() -> None:
    guarded, free = a_candidate(a_rule("strong"), guards=Truth.TRUE), a_candidate(a_rule("weak"))
    assert why(decide(NODE, [guarded], [], T0)) == {"strong": WaitReason.GUARD}
    (order,) = decide(NODE, [guarded, free], [], T0).orders
    assert order.candidate.name == "weak"


def test_disputed_rules_make_no_job() -> None:
    assert why(decide(NODE, [a_candidate(disputed=True)], [], T0)) == {
        "runtime": WaitReason.DISAGREE
    }


def test_a_new_or_freshly_booted_node_gets_its_grace() -> None:
    for node in (replace(NODE, created=T0 - MINUTE), replace(NODE, booted_at=T0 - MINUTE)):
        (order,) = decide(node, [a_candidate()], [], T0).orders
        assert order.wait is not None
        assert (order.wait.not_before, order.wait.reason) == (T0 + 4 * MINUTE, "StartupGrace")
        dry = decide(node, [a_candidate(a_rule(mode="DryRun"))], [], T0)
        assert (dry.dry_runs, dict(dry.waits)) == ((), {"runtime": WaitReason.STARTUP})
        assert dry.at == T0 + 4 * MINUTE


def test_cools_down_after_a_job_that_acted() -> None:
    rule = a_candidate(a_rule(cooldown="90m"))
    decision = decide(NODE, [rule], [a_past()], T0)
    assert why(decision) == {"runtime": WaitReason.COOLDOWN}
    assert decision.at == T0 + 35 * MINUTE
    idle = a_past(acted=False, acted_at=None)
    assert decide(NODE, [rule], [idle], T0).orders, "a job that only told people cools nothing"


def test_f07_attempts_are_bounded_within_their_window() -> None:
    past = [
        a_past(f"n1-{i}", created=T0 - h * 60 * MINUTE, acted_at=T0 - (h * 60 - 5) * MINUTE,
               closed=T0 - (h * 60 - 10) * MINUTE)
        for i, h in enumerate((2, 6, 12))
    ]  # fmt: skip
    decision = decide(NODE, [a_candidate()], past, T0)
    assert why(decision) == {"runtime": WaitReason.ATTEMPTS}
    assert decision.at == T0 + timedelta(hours=12)
    other = a_candidate(a_rule("weaker"))
    assert decide(NODE, [a_candidate(), other], past, T0).orders[0].candidate.name == "weaker"
    renewed = replace(NODE, uid="uid-2")
    assert decide(renewed, [a_candidate()], past, T0).orders, "another machine under this name"


def test_a_relapse_starts_one_rung_higher_and_names_its_forerunner() -> None:
    (order,) = decide(NODE, [a_candidate()], [a_past(rung=0)], T0).orders
    assert (order.start_rung, order.previous) == (1, "n1-old")
    (top,) = decide(NODE, [a_candidate()], [a_past(rung=1)], T0).orders
    assert top.start_rung == 1
    (late,) = decide(NODE, [a_candidate()], [a_past(closed=T0 - timedelta(hours=25))], T0).orders
    assert (late.start_rung, late.previous) == (0, "")


def test_a_persons_word_lasts_until_ten_minutes_without_the_fault() -> None:
    spoken = a_past(phase=JobPhase.CANCELLED, reason=CloseReason.PERSON_UNCORDONED)
    other = a_candidate(a_rule("another"))
    assert why(decide(NODE, [other], [spoken], T0)) == {"another": WaitReason.INCIDENT}
    short = replace(spoken, false_since=T0 - 9 * MINUTE)
    assert why(decide(NODE, [other], [short], T0)) == {"another": WaitReason.INCIDENT}
    over = replace(spoken, false_since=T0 - 12 * MINUTE)
    assert decide(NODE, [other], [over], T0).orders


def test_a_fault_within_the_ten_minutes_is_repaired_by_another_rule_after_them() -> None:
    closed = a_past(reason=CloseReason.PERSON_CLOSED, false_since=T0 - 9 * MINUTE)
    other = a_candidate(a_rule("another"), since=T0 - 5 * MINUTE)
    decision = decide(NODE, [other], [closed], T0)
    assert why(decision) == {"another": WaitReason.INCIDENT}
    assert decision.at == T0 + MINUTE, "decided again when the ten minutes are over"
    assert decide(NODE, [other], [closed], T0 + MINUTE).orders
    same = a_candidate(since=T0 - 5 * MINUTE)
    assert why(decide(NODE, [same], [closed], T0 + MINUTE)) == {"runtime": WaitReason.INCIDENT}


def test_what_was_given_up_is_not_begun_again_in_the_same_incident() -> None:
    given_up = a_past(phase=JobPhase.FAILED, reason=CloseReason.GAVE_UP)
    assert why(decide(NODE, [a_candidate()], [given_up], T0)) == {"runtime": WaitReason.INCIDENT}
    other = a_candidate(a_rule("another"))
    assert decide(NODE, [other], [given_up], T0).orders


def test_a_cancelled_job_whose_fault_went_by_itself_keeps_nobody_back() -> None:
    gone = a_past(phase=JobPhase.CANCELLED, reason=CloseReason.FAULT_GONE, acted=False)
    assert decide(NODE, [a_candidate()], [replace(gone, acted_at=None)], T0).orders


def test_dry_runs_are_ordered_beside_open_jobs_once_per_incident() -> None:
    rule = a_candidate(a_rule("shadow", mode="DryRun"))
    open_job = a_past(phase=JobPhase.RUNNING, closed=None, reason=None)
    decision = decide(NODE, [rule], [open_job], T0)
    assert [o.candidate for o in decision.dry_runs] == [rule] and decision.orders == ()
    done = a_dry_run(at=T0)
    assert decide(NODE, [rule], [open_job, done], T0 + 90 * MINUTE).dry_runs == ()
    over = replace(done, false_since=T0 + 4 * MINUTE)
    assert decide(NODE, [rule], [open_job, over], T0 + 90 * MINUTE).dry_runs
    real = decide(NODE, [a_candidate()], [done], T0 + MINUTE)
    assert real.orders, "a dry run never is the node's open job"


def test_dry_runs_keep_to_the_cooldown_and_the_attempts_of_their_rule() -> None:
    rule = a_candidate(a_rule("shadow", mode="DryRun", attempts={"max": 2, "within": "24h"}))
    past = [a_dry_run(at=T0 - 60 * MINUTE, over=T0 - 59 * MINUTE)]
    assert decide(NODE, [rule], past, T0 - 40 * MINUTE).waits == (("shadow", WaitReason.COOLDOWN),)
    past.append(a_dry_run(at=T0 - 31 * MINUTE, over=T0 - 30 * MINUTE))
    assert decide(NODE, [rule], past, T0).waits == (("shadow", WaitReason.ATTEMPTS),)


def a_dry_run(at: datetime, over: datetime | None = None) -> Past:
    base = a_past("", remedier="shadow", shadow=True, phase=JobPhase.SHADOWED, reason=None)
    return replace(base, created=at, acted_at=at, closed=at, false_since=over)


def test_rules_that_are_off_make_nothing() -> None:
    assert decide(NODE, [a_candidate(a_rule(mode="Off"))], [], T0) == Decision()


def test_a_relapse_within_the_probation_is_a_failed_healing() -> None:
    healed = a_past(probation=60 * MINUTE)
    assert decide(NODE, [a_candidate()], [healed], T0).orders[0].failed_healing
    for other in (
        a_past(probation=30 * MINUTE),
        replace(healed, phase=JobPhase.FAILED, reason=CloseReason.PROVEN),
    ):
        order = decide(NODE, [a_candidate()], [other], T0).orders[0]
        assert order.previous == "n1-old" and not order.failed_healing
