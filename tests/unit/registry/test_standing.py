"""What the registry knows of a rule: nodes selected and matching, disputes, and what is told."""

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.clock import T0, FakeClock
from support.remedy_builders import DRAIN, an_object
from support.remedy_hand import RULE, Hands
from support.revisions_world import BAD

from kubenode.api.v1alpha1 import NodeRemedier, RemedyOperationJob
from kubenode.api.v1alpha1.noderemedier import NodeRemedierStatus
from remedy.job.model import Job
from remedy.registry import quarantine
from remedy.registry.jobs import JobLedger
from remedy.registry.matches import Matches
from remedy.registry.reach import RuleReach, Size
from remedy.registry.select import needs_its_rule
from rules.engines.disputes import DisputeRecord

MINUTE = timedelta(minutes=1)
CLEAR = "kubenode.io/clear-quarantine"
AGES = (T0 - timedelta(days=1)).isoformat()


def a_rule(name: str = "r", **spec: object) -> NodeRemedier:
    return NodeRemedier.from_user({"metadata": {"name": name}, "spec": {**RULE, **spec}})


# -- how many nodes are selected ------------------------------------------------------------------


def put(hands: Hands, name: str, **labels: str) -> None:
    keys = {key.replace("_", "/"): value for key, value in labels.items()}
    hands.nodes.put({"metadata": {"name": name, "uid": name, "labels": keys}})


CHANGES = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from(["a", "b", None, "gone"])), max_size=30
)
RULES = {
    "all": a_rule("all"),
    "a": a_rule("a", nodes={"selector": {"matchLabels": {"pool": "a"}}}),
    "some": a_rule(
        "some",
        nodes={
            "selector": {"matchExpressions": [{"key": "pool", "operator": "Exists"}]},
            "exclude": {"matchLabels": {"pool": "b"}},
        },
    ),
}


@given(CHANGES, CHANGES)
@pytest.mark.exhaustive
async def test_counts_follow_every_change_of_nodes(
    before: list[tuple[int, str | None]], after: list[tuple[int, str | None]]
) -> None:
    hands = Hands()
    reach = RuleReach(hands.nodes, FakeClock())
    for changes in (before, after):
        for n, pool in changes:
            if pool == "gone":
                hands.nodes.remove(f"n{n}")
            else:
                put(hands, f"n{n}", **({"pool": pool} if pool else {}))
        await reach.follow(RULES.values())
        for name, rule in RULES.items():
            naive = sum(
                rule.spec.nodes.matches(node.metadata.labels) for node in hands.nodes.cache.values()
            )
            assert reach.size(name).nodes == naive


async def test_nodes_that_somebody_could_replace_are_counted_by_the_rules_own_ways() -> None:
    hands = Hands()
    put(hands, "n1")
    put(hands, "n2", **{"karpenter.sh_nodepool": "x"})
    hands.nodes.put({"metadata": {"name": "n3", "annotations": {"cluster.x-k8s.io/machine": "m3"}}})
    replace = [{"name": "new", "steps": [{"replace": {"via": ["ClusterAPI"]}}]}]
    reach = RuleReach(hands.nodes, FakeClock())
    await reach.follow([a_rule("any"), a_rule("capi", ladder=replace)])
    assert reach.size("any") == Size(3, 2)
    assert reach.size("capi") == Size(3, 1)


# -- how many match -------------------------------------------------------------------------------


def test_matches_are_counted_by_what_changed() -> None:
    matches = Matches()
    assert set(matches.says("n1", frozenset({"a", "b"}), T0)) == {"a", "b"}
    assert set(matches.says("n1", frozenset({"a"}), T0 + MINUTE)) == {"b"}
    assert matches.says("n1", frozenset({"a"}), T0 + 2 * MINUTE) == ()
    assert (matches.count("a"), matches.count("b"), matches.last("a")) == (1, 0, T0)
    matches.keep({"b"})
    assert matches.count("a") == 0 and matches.last("a") is None
    assert set(matches.says("n1", frozenset({"a"}), T0 + 3 * MINUTE)) == {"a"}
    assert matches.count("a") == 1, "a rule made anew is counted anew"


# -- status ---------------------------------------------------------------------------------------


async def status(hands: Hands) -> NodeRemedierStatus:
    await hands.operator.reports.reconcile("runtime")
    return hands.remediers.cache["runtime"].status


async def test_the_estimate_is_of_when_the_generation_came() -> None:
    hands = Hands()
    hands.node("n1")
    await hands.rule()
    assert (await status(hands)).would_reach is not None
    hands.node("n2")
    await hands.operator.rules.reload()
    kept = (await status(hands)).would_reach
    assert kept is not None and kept.nodes == 1, "it does not follow an autoscaler"
    version = hands.remediers.cache["runtime"].metadata.generation + 1
    rule = hands.remediers.cache["runtime"].to_dict()
    hands.remediers.put({**rule, "metadata": {**rule["metadata"], "generation": version}})
    await hands.operator.rules.reload()
    anew = (await status(hands)).would_reach
    assert anew is not None and anew.nodes == 2


async def test_a_status_that_says_the_same_is_not_written_again() -> None:
    hands = Hands()
    hands.node("n1")
    await hands.rule()
    first = await status(hands)
    hands.clock.step(timedelta(hours=3))
    await hands.operator.rules.reload()
    assert await status(hands) is first


@pytest.mark.parametrize(("accept", "state"), [(None, "False"), ("30", "True"), ("x", "False")])
async def test_a_rule_that_matches_the_whole_fleet_says_so(accept: str | None, state: str) -> None:
    hands = Hands()
    for n in range(30):
        hands.node(f"n{n}", Sick=("True", T0 - MINUTE))
    await hands.rule()
    if accept:
        rule = hands.remediers.cache["runtime"].to_dict()
        annotations = {"kubenode.io/accept-blast-radius": accept}
        hands.remediers.put({**rule, "metadata": {**rule["metadata"], "annotations": annotations}})
    for n in range(30):
        await hands.decide(f"n{n}")
    found = await status(hands)
    assert found.matching == 30
    [size] = [c for c in found.conditions if c.type == "SafeSize"]
    assert size.status == state
    assert size.reason == ("SelectsNodes" if state == "True" else "MatchesTooMany")


# -- disputes -------------------------------------------------------------------------------------

WHY = "the engines disagree about it: observed only"


async def disputed() -> Hands:
    hands = Hands()
    await hands.rule()
    hands.dispute("runtime@1", WHY)
    await hands.operator.rules.refresh_disputes()
    await status(hands)
    assert hands.events_told() == ["EngineDisagreement"]
    return hands


def annotate(hands: Hands, at: str) -> None:
    rule = hands.remediers.cache["runtime"].to_dict()
    metadata = {**rule["metadata"], "annotations": {CLEAR: at}}
    hands.remediers.put({**rule, "metadata": metadata})


async def test_a_person_clears_a_quarantine_and_a_later_dispute_stands() -> None:
    hands = await disputed()
    hands.clock.step(MINUTE)
    annotate(hands, hands.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"))
    await hands.operator.rules.refresh_disputes()
    assert (await status(hands)).phase == "Active"
    assert hands.diagnoser.check.quarantined == {}
    hands.clock.step(MINUTE)
    hands.dispute("runtime@1", WHY)
    await hands.operator.rules.refresh_disputes()
    assert (await status(hands)).phase == "Quarantined"


@pytest.mark.parametrize("at", ["soon", "", "2099-01-01T00:00:00Z", "2020-01-01T00:00:00Z"])
async def test_words_that_are_no_instant_since_the_dispute_clear_nothing(at: str) -> None:
    hands = await disputed()
    annotate(hands, at)
    await hands.operator.rules.refresh_disputes()
    assert (await status(hands)).phase == "Quarantined"


async def test_a_quarantine_outlives_our_restart_before_any_rule_may_act() -> None:
    hands = await disputed()
    after = Hands(hands.clock, hands)
    after.node(Sick=("True", T0 - MINUTE))
    await after.operator.rules.reload()
    assert (await status(after)).phase == "Quarantined"
    assert list(after.diagnoser.check.quarantined) == ["runtime@1"]
    assert after.events_told() == [], "it was told when it was found"
    await after.decide()
    assert after.made() == []


async def test_the_event_of_a_dispute_names_the_fact_by_its_hash() -> None:
    hands = Hands()
    await hands.rule()
    record = DisputeRecord("runtime@1", T0, "0123abcd", ("condition Sick: true",), ("r0ep",), ())
    check = hands.diagnoser.check
    check.quarantined["runtime@1"], check.disputes["runtime@1"] = record.summary, record
    hands.clock.step(MINUTE)
    await hands.operator.rules.refresh_disputes()
    pending = hands.operator.recorder._pending
    event = pending.get_nowait()
    assert event["reason"] == "EngineDisagreement" and "fact 0123abcd" in event["message"]
    annotate(hands, T0.isoformat())  # a person saw it when it began
    await hands.operator.rules.refresh_disputes()
    assert (await status(hands)).phase == "Active"


async def test_a_quarantine_ends_with_the_generation() -> None:
    hands = await disputed()
    await hands.rule(generation=2, priority=9)
    assert (await status(hands)).phase == "Active"


async def test_a_quarantine_ends_with_the_image_that_disagreed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hands = await disputed()
    rule = hands.remediers.cache["runtime"]
    loaded = rule.status.compiled_hash or ""
    assert quarantine.restored(rule, loaded, T0) is not None
    assert quarantine.restored(rule, loaded, T0, "kubenode 9, durable-rules 3") is None
    assert quarantine.restored(rule, "sha256:another", T0) is None


async def test_a_good_version_that_needs_a_lost_fact_is_not_said_to_run() -> None:
    hands = Hands()
    fact = {"fact": {"name": "d.bad"}}
    infer = {"fact": "d.bad"}
    base = {"ladder": None, "infer": infer}
    base_spec = {k: v for k, v in {**RULE, **base}.items() if v is not None}
    meta = {"name": "base", "uid": "uid-base", "generation": 1}
    hands.remediers.put({"metadata": meta, "spec": base_spec})
    await hands.rule(when=fact)
    assert sorted(hands.operator.rules.active()) == ["base@1", "runtime@1"]
    hands.remediers.remove("base")
    await hands.rule(generation=2, when=fact, ladder=BAD)
    assert list(hands.operator.rules.active()) == []
    found = await status(hands)
    [compiled] = [c for c in found.conditions if c.type == "Compiled"]
    assert "nor can its last good version be loaded" in compiled.message
    assert found.compiled_hash is None


# -- jobs -----------------------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "NeedsHuman", "gone"]),
        st.booleans(),
    ),
    max_size=30,
)


@given(STEPS)
def test_jobs_are_counted_as_if_all_were_walked(steps: list[tuple[int, str, bool]]) -> None:
    ledger, there = JobLedger(), dict[str, RemedyOperationJob]()
    for n, phase, relapse in steps:
        name = f"j{n}"
        old = there.pop(name, None)
        if phase == "gone":
            ledger.changed(old, None)
            continue
        there[name] = a_job_of_a_rule(name, phase, relapse)
        ledger.changed(old, there[name])
    counts = ledger.counts("runtime")
    phases = [job.status.phase.value for job in there.values()]
    assert counts.running == phases.count("Pending") + phases.count("Running")
    assert (counts.succeeded, counts.failed) == (phases.count("Succeeded"), phases.count("Failed"))
    assert counts.needs_human == phases.count("NeedsHuman")
    assert counts.relapsed == sum(bool(job.spec.previous) for job in there.values())
    walked = {name for name, job in there.items() if needs_its_rule(Job.of(job))}
    assert {job.metadata.name for job in ledger.following()} == walked


def a_job_of_a_rule(name: str, phase: str, relapse: bool) -> RemedyOperationJob:
    obj = an_object(DRAIN).to_dict()
    obj["metadata"]["name"] = name
    obj["spec"]["remedier"] = {"name": "runtime", "uid": "uid-runtime", "generation": 1}
    obj["spec"]["previous"] = "before" if relapse else ""
    obj["status"] = {"phase": phase}
    return RemedyOperationJob.from_server(json.dumps(obj).encode())


# -- new rules beside good ones -------------------------------------------------------------------


def infers(fact: str, when: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = {**RULE, "when": when, "infer": {"fact": fact}}
    return {key: value for key, value in spec.items() if key != "ladder"}


def asks(fact: str) -> dict[str, Any]:
    return {"fact": {"name": fact}}


def write(hands: Hands, name: str, spec: dict[str, Any], generation: int = 1) -> None:
    metadata = {"name": name, "uid": f"uid-{name}", "generation": generation}
    hands.remediers.put({"metadata": metadata, "spec": spec})


async def test_a_new_rule_that_closes_a_cycle_never_unloads_the_old_ones() -> None:
    """Whichever rule of the cycle the compiler names, here the first by name: an old one."""
    hands = Hands()
    sick = {"condition": {"type": "Sick"}}
    write(hands, "a", infers("d.a", {"any": [sick, asks("d.b")]}))
    write(hands, "b", infers("d.b", sick))
    await hands.operator.rules.reload()
    assert sorted(hands.operator.rules.active()) == ["a@1", "b@1"]
    write(hands, "z", infers("d.b", asks("d.a")))
    write(hands, "fine", {**RULE, "when": asks("d.a")})
    await hands.operator.rules.reload()
    assert sorted(hands.operator.rules.active()) == ["a@1", "b@1", "fine@1"]
    [(name, why)] = hands.operator.rules._now.why.items()
    assert name == "z" and "cycle" in why


async def test_a_new_version_that_closes_a_cycle_leaves_the_good_version() -> None:
    hands = Hands()
    sick = {"condition": {"type": "Sick"}}
    write(hands, "a", infers("d.a", asks("d.b")))
    write(hands, "b", infers("d.b", sick))
    await hands.operator.rules.reload()
    write(hands, "b", infers("d.b", asks("d.a")), generation=2)
    await hands.operator.rules.reload()
    assert sorted(hands.operator.rules.active()) == ["a@1", "b@1"]


async def test_more_rules_than_there_is_room_for_push_out_no_good_one_and_are_told_in_bounds(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("rules.load_limits.MOST_RULES", 3)
    hands = Hands()
    for name in ("x", "y", "z"):
        write(hands, name, {**RULE})
    await hands.operator.rules.reload()
    for n in range(80):
        write(hands, f"a{n}", {**RULE})
    await hands.operator.rules.reload()
    assert sorted(hands.operator.rules.active()) == ["x@1", "y@1", "z@1"]
    assert len([r for r in caplog.records if r.getMessage() == "rule refused"]) == 50
    assert "more rules refused" in caplog.messages
    write(hands, "x", {**RULE, "priority": 3}, generation=2)
    await hands.operator.rules.reload()
    assert sorted(hands.operator.rules.active()) == ["x@2", "y@1", "z@1"]


async def test_a_broken_version_of_a_fact_keeps_its_readers_and_tells_its_own_fault() -> None:
    hands = Hands()
    write(hands, "base", infers("d.a", {"condition": {"type": "Sick"}}))
    write(hands, "reader", {**RULE, "when": asks("d.a")})
    await hands.operator.rules.reload()
    write(hands, "base", infers("d.a", asks("no.suchFact")), generation=2)
    await hands.operator.rules.reload()
    assert sorted(hands.operator.rules.active()) == ["base@1", "reader@1"]
    [(name, why)] = hands.operator.rules._now.why.items()
    assert name == "base" and "'no.suchFact' is no built-in fact" in why


async def test_a_rule_of_which_only_the_status_changed_has_its_spec_once() -> None:
    hands = Hands()
    await hands.rule()
    loaded = hands.operator.rules.active()["runtime@1"]
    told = {**hands.remediers.cache["runtime"].to_dict(), "status": {"phase": "Active"}}
    hands.remediers.put(told)
    assert hands.remediers.cache["runtime"] is not loaded
    assert hands.remediers.cache["runtime"].spec is loaded.spec
