"""Evidence that a rule in DryRun gathers: firings, nodes that recover alone, and conflicts."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from support.clock import T0
from support.remedy_hand import Hands

from kubenode.api.v1alpha1 import JobPhase, NodeRemedier
from kubenode.api.v1alpha1.noderecord import DryRunEvidence
from kubenode.api.v1alpha1.noderemedier import (
    MOST_EVIDENCE_NODES,
    DryRunStatus,
    RemedierPhase,
)
from kubenode.runtime.kube.objects import Node
from remedy.noderecord.evidence import EvidenceTotals, count_end, find_attended_at
from remedy.registry.dry_run_status import LONGEST_GAP, find_interval, observe_dry_run
from remedy.remedier.past import Past

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
LONG_AGO = T0 - timedelta(days=2)


async def make_hands(**rule: Any) -> Hands:
    hands = Hands()
    await hands.rule(mode="DryRun", **rule)
    return hands


def report(hands: Hands, status: str) -> None:
    """Report whether the node is sick, since now."""
    sick = (status, hands.clock.now() - MINUTE)
    hands.node(Ready=("True", LONG_AGO), Sick=sick)


async def fire(hands: Hands) -> None:
    report(hands, "True")
    await hands.decide()
    await hands.later(MINUTE)


async def recover(hands: Hands, after: timedelta = MINUTE) -> None:
    hands.clock.step(after)
    hands.current()
    report(hands, "False")
    await hands.decide()


async def read_evidence(hands: Hands, rule: str = "runtime") -> DryRunEvidence:
    results = {each.remedier: each for each in (await hands.record()).dry_runs}
    evidence = results[rule].evidence
    assert evidence is not None
    return evidence


async def test_node_that_recovers_alone_counts_once_for_each_incident() -> None:
    hands = await make_hands(cooldown="1m")
    await fire(hands)
    assert await read_evidence(hands) == DryRunEvidence(generation=1, firings=1)
    await recover(hands)
    await hands.later(MINUTE)
    assert await read_evidence(hands) == DryRunEvidence(generation=1, firings=1, recovered_alone=1)
    hands.clock.step(HOUR)
    hands.current()
    await fire(hands)
    await recover(hands)
    evidence = await read_evidence(hands)
    assert (evidence.firings, evidence.recovered_alone) == (2, 2)


@pytest.mark.parametrize(("attended", "alone"), [(-MINUTE, 1), (None, 1), (MINUTE, 0)])
async def test_node_that_was_attended_since_the_firing_did_not_recover_alone(
    attended: timedelta | None, alone: int
) -> None:
    hands = await make_hands()
    await fire(hands)
    results = (await hands.record()).dry_runs[0]
    at = None if attended is None else results.recent[-1].at + attended
    evidence = count_end(results, at)
    assert evidence is not None
    assert evidence.recovered_alone == alone


def test_cordon_boot_and_repair_attend_a_node() -> None:
    node = decode_node(False)
    assert find_attended_at(node, None, [], T0) is None
    assert find_attended_at(node, T0 - HOUR, [], T0) == T0 - HOUR
    assert find_attended_at(decode_node(True), T0 - HOUR, [], T0) == T0
    repair = Past("job", "uid", "other", "disk", JobPhase.SUCCEEDED, T0, acted=True, acted_at=T0)
    assert find_attended_at(node, T0 - HOUR, [repair], T0 + HOUR) == T0
    open_repair = replace(repair, phase=JobPhase.RUNNING)
    assert find_attended_at(node, None, [open_repair], T0 + HOUR) == T0 + HOUR
    for irrelevant in (
        replace(repair, acted=False),
        replace(repair, shadow=True),
        replace(repair, node_uid="earlier"),
    ):
        assert find_attended_at(node, None, [irrelevant], T0 + HOUR) is None


def decode_node(unschedulable: bool) -> Node:
    metadata = {"name": "n1", "uid": "uid"}
    return msgspec.convert({"metadata": metadata, "spec": {"unschedulable": unschedulable}}, Node)


async def test_node_that_another_rule_repaired_did_not_recover_alone_and_is_a_conflict() -> None:
    hands = await make_hands()
    await hands.rule("other", mode="Enforce")
    await fire(hands)
    (job,) = hands.made()
    at = (hands.clock.now() + MINUTE / 2).isoformat()
    step = {"rung": 0, "index": 0, "name": "agent", "by": "Agent", "state": "Done"}
    hands.clock.step(MINUTE)
    steps = [{**step, "startedAt": at, "finishedAt": at}]
    hands.closes(job.metadata.name, "Succeeded", steps=steps)
    await recover(hands)
    evidence = await read_evidence(hands)
    assert (evidence.conflict, evidence.recovered_alone) == ("other", 0)


async def test_rule_that_only_notifies_is_no_conflict() -> None:
    hands = await make_hands()
    notify = [{"name": "notify", "steps": [{"notify": {}}]}]
    await hands.rule("other", mode="Enforce", ladder=notify)
    await fire(hands)
    assert (await read_evidence(hands)).conflict == ""


async def test_new_version_of_a_rule_starts_with_the_incidents_that_last() -> None:
    hands = await make_hands()
    await fire(hands)
    await hands.rule(generation=2, mode="DryRun", priority=400)
    await hands.later(MINUTE)
    assert await read_evidence(hands) == DryRunEvidence(generation=2, firings=1)
    await recover(hands)
    assert (await read_evidence(hands)).recovered_alone == 1
    await hands.rule(generation=3, mode="DryRun")
    hands.clock.step(2 * HOUR)
    hands.current()
    await fire(hands)
    assert await read_evidence(hands) == DryRunEvidence(generation=3, firings=1)


async def test_index_adds_up_nodes_of_one_version_and_forgets_deleted_ones() -> None:
    hands = await make_hands()
    changed: list[str] = []
    hands.operator.records.evidence_changed = changed.append
    await fire(hands)
    hands.node("n2", Ready=("True", LONG_AGO), Sick=("True", T0 - MINUTE))
    await hands.decide("n2")
    await recover(hands)
    index = hands.operator.records.evidence
    assert index.add_up("runtime", 1) == EvidenceTotals(2, 2, ("n1",))
    assert index.add_up("runtime", 2) == EvidenceTotals()
    assert "runtime" in changed
    restarted = Hands(hands.clock, hands)
    for name in ("n1", "n2"):
        await hands.record(name)
        restarted.records.put(hands.records.cache[name].to_dict())
    assert restarted.operator.records.evidence.add_up("runtime", 1).alone == ("n1",)
    hands.nodes.remove("n1")
    await hands.record("n1")
    assert index.add_up("runtime", 1).alone == ()


# -- the status of the rule ----


def make_rule(
    status: DryRunStatus | None, mode: str = "DryRun", generation: int = 1
) -> NodeRemedier:
    raw = {
        "metadata": {"name": "rule", "generation": generation},
        "spec": {
            "mode": mode,
            "nodes": {"all": True},
            "when": {"condition": {"type": "Sick", "status": "True"}},
            "ladder": [{"name": "notify", "steps": [{"notify": {}}]}],
        },
    }
    rule = NodeRemedier.model_validate(raw)
    status_ = rule.status.model_copy(update={"dry_run": status})
    return rule.model_copy(update={"status": status_})


def observe(
    status: DryRunStatus | None, now: datetime, totals: EvidenceTotals | None = None
) -> DryRunStatus:
    rule = make_rule(status)
    new = observe_dry_run(rule, RemedierPhase.ACTIVE, totals or EvidenceTotals(), now)
    assert new is not None
    return new


def test_time_runs_while_the_operator_observes_and_begins_anew_after_a_long_gap() -> None:
    status = observe(None, T0)
    assert (status.since, status.until) == (T0, T0)
    status = observe(status, T0 + LONGEST_GAP)
    assert (status.since, status.until) == (T0, T0 + LONGEST_GAP)
    after = status.until + LONGEST_GAP + MINUTE
    status = observe(status, after)
    assert (status.since, status.until) == (after, after)


def test_time_never_runs_backwards_when_the_clock_steps_back() -> None:
    status = observe(observe(None, T0), T0 + 30 * MINUTE)
    assert observe(status, T0, EvidenceTotals(firings=1)).until == T0 + 30 * MINUTE


def test_a_day_in_dry_run_is_written_a_bounded_number_of_times() -> None:
    status, writes, now = observe(None, T0), 0, T0
    while now < T0 + 24 * HOUR:
        now += find_interval(status)
        new = observe(status, now)
        writes += new != status
        status = new
    assert status.until - status.since >= 24 * HOUR
    assert writes < 120
    assert find_interval(status) < LONGEST_GAP


@pytest.mark.parametrize("phase", [RemedierPhase.REJECTED, RemedierPhase.QUARANTINED])
def test_time_does_not_run_while_the_version_may_not_act(phase: RemedierPhase) -> None:
    status = observe(None, T0)
    later = T0 + 30 * MINUTE
    assert observe_dry_run(make_rule(status), phase, EvidenceTotals(), later) == status
    assert observe_dry_run(make_rule(None), phase, EvidenceTotals(), later) is None


def test_another_version_or_mode_has_no_evidence_of_this_one() -> None:
    status = observe(None, T0, EvidenceTotals(3, 2, ("n1",)))
    later = T0 + MINUTE
    changed = make_rule(status, generation=2)
    new = observe_dry_run(changed, RemedierPhase.ACTIVE, EvidenceTotals(), later)
    assert new == DryRunStatus(generation=2, since=later, until=later)
    acting = make_rule(status, mode="Enforce")
    assert observe_dry_run(acting, RemedierPhase.ACTIVE, EvidenceTotals(), later) is None


def test_numbers_never_fall_and_names_are_bounded() -> None:
    names = tuple(f"n-{number}" for number in range(50))
    status = observe(None, T0, EvidenceTotals(60, 50, names[:30], names[30:]))
    assert (status.recovered_alone, status.conflicts) == (30, 20)
    assert status.node_names == list(names[:MOST_EVIDENCE_NODES])
    again = observe(status, T0 + MINUTE, EvidenceTotals())
    assert (again.firings, again.nodes, again.recovered_alone, again.conflicts) == (60, 50, 30, 20)
