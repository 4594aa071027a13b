"""Each limit by itself: what it counts, where it says no, what the refusal tells."""

from datetime import timedelta

import pytest
from support.clock import T0
from support.defender_core import (
    CONTROL_PLANE,
    POOL,
    ZONE,
    Core,
    a_node,
    a_policy,
    an_ask,
)

from kubenode.api.v1alpha1 import Disruption, Operation, Reason

CLUSTER_2 = {"scope": "Cluster", "maxConcurrent": 2}


def test_nodes_that_are_not_known_are_refused() -> None:
    assert Core().judge(an_ask("nobody")).reason is Reason.UNKNOWN


def test_an_act_that_disrupts_nothing_is_not_for_defender() -> None:
    core = Core()
    core.fleet(3)
    verdict = core.judge(an_ask("n0", Disruption.NONE))
    assert not verdict.allowed and "needs no permit" in verdict.message


def test_asking_twice_gives_the_same_permit_and_a_weaker_class_is_in_it() -> None:
    core = Core(a_policy(limits=[CLUSTER_2]))
    core.fleet(20)
    first = core.ask(an_ask("n0"))
    for class_ in (Disruption.NODE, Disruption.PODS, Disruption.HOST):
        again = core.judge(an_ask("n0", class_))
        assert again.allowed and again.permit == first.permit


def test_one_permit_per_node_whoever_asks() -> None:
    core = Core(a_policy(limits=[CLUSTER_2]))
    core.fleet(20)
    core.ask(an_ask("n0", holder="one"))
    verdict = core.judge(an_ask("n0", Disruption.HOST, holder="two"))
    assert verdict.reason is Reason.NODE_BUSY and "one" in verdict.message


def test_concurrency_counts_what_is_held_and_names_scope_use_and_limit() -> None:
    core = Core(a_policy(limits=[CLUSTER_2]))
    core.fleet(20)
    held = core.ask(an_ask("n0"))
    assert core.ask(an_ask("n1")).allowed
    no = core.judge(an_ask("n2"))
    assert (no.reason, no.scope, no.used, no.limit) == (Reason.CONCURRENCY_LIMIT, "cluster", 2, 2)
    assert no.look_again_at is not None and no.look_again_at > T0
    core.release(held.permit)
    assert core.ask(an_ask("n2")).allowed


@pytest.mark.parametrize(("share", "nodes", "granted"), [("10%", 39, 3), ("2%", 10, 1), (0, 9, 0)])
def test_shares_round_down_but_to_no_less_than_one(
    share: str | int, nodes: int, granted: int
) -> None:
    core = Core(a_policy(limits=[{"scope": "Cluster", "maxConcurrent": share}]))
    core.fleet(nodes)
    assert sum(core.ask(an_ask(f"n{i}")).allowed for i in range(nodes)) == granted


def test_zero_percent_means_none() -> None:
    core = Core(a_policy(limits=[{"scope": "Cluster", "maxConcurrent": "0%"}]))
    core.fleet(100)
    assert core.judge(an_ask("n0")).limit == 0


def test_f13_cordons_are_limited_when_most_nodes_match_at_once() -> None:
    core = Core()
    core.fleet(200)
    for number in range(150):
        core.fail(f"n{number}")
    assert core.judge(an_ask("n0", Disruption.PODS)).reason is Reason.BREAKER_OPEN
    healthy = Core()
    healthy.fleet(200)
    granted = [healthy.ask(an_ask(f"n{i}", Disruption.PODS)).allowed for i in range(150)]
    assert sum(granted) == 4  # 2% of 200, although nothing is drained or rebooted yet


def test_f15_heartbeats_that_stop_everywhere_stop_acts_and_coming_back_thaws_them() -> None:
    core = Core()
    core.fleet(50)
    core.fail(*(f"n{i}" for i in range(50)))
    assert core.judge(an_ask("n3")).reason is Reason.BREAKER_OPEN
    core.nodes(*(a_node(f"n{i}") for i in range(50) if i != 3))
    assert core.judge(an_ask("n3")).reason is Reason.BREAKER_OPEN
    core.step(minutes=10)  # the breaker saw five minutes of calm, and half opens
    assert core.judge(an_ask("n3")).allowed


def test_f04_nodes_that_were_never_ready_are_neither_faults_nor_reserve() -> None:
    core = Core(a_policy(limits=[{"scope": "Cluster", "maxConcurrent": 5, "minHealthy": "90%"}]))
    core.fleet(10)
    young = [a_node(f"new{i}", ready=False, born=T0, since=T0) for i in range(10)]
    core.nodes(*young)
    assert core.judge(an_ask("n0")).allowed
    core.step(minutes=30)
    assert core.judge(an_ask("n0")).allowed


def test_a_label_limit_is_about_nodes_of_one_value_and_no_others() -> None:
    core = Core(a_policy(limits=[{"scope": "Label", "label": ZONE, "maxConcurrent": 1}]))
    core.fleet(10, {ZONE: "a"}, "a")
    core.fleet(10, {ZONE: "b"}, "b")
    core.fleet(10, {}, "free")
    assert core.ask(an_ask("a0")).allowed
    assert core.judge(an_ask("a1")).scope == f"{ZONE}=a"
    assert core.ask(an_ask("b0")).allowed
    assert all(core.ask(an_ask(f"free{i}")).allowed for i in range(10))


def test_relabelling_a_node_frees_no_slot() -> None:
    core = Core(a_policy(limits=[{"scope": "Label", "label": ZONE, "maxConcurrent": 1}]))
    core.fleet(10, {ZONE: "a"}, "a")
    core.fleet(10, {ZONE: "b"}, "b")
    core.ask(an_ask("a0"))
    core.nodes(a_node("a0", {ZONE: "b"}))
    assert core.judge(an_ask("a1")).reason is Reason.CONCURRENCY_LIMIT
    assert core.judge(an_ask("b1")).reason is Reason.CONCURRENCY_LIMIT


def test_a_permit_counts_while_its_node_is_gone_until_it_is_released() -> None:
    core = Core(a_policy(limits=[{"scope": "Label", "label": ZONE, "maxConcurrent": 1}]))
    core.fleet(10, {ZONE: "a"}, "a")
    core.ask(an_ask("a0"))
    core.census.remove("a0")
    assert core.judge(an_ask("a1")).reason is Reason.CONCURRENCY_LIMIT


def test_min_healthy_counts_what_would_stay() -> None:
    core = Core(a_policy(limits=[{"scope": "Cluster", "minHealthy": 8}]))
    core.fleet(10)
    core.fail("n0")
    assert core.ask(an_ask("n0")).allowed  # takes none away: 9 stay
    assert core.ask(an_ask("n1")).allowed  # 8 stay
    no = core.judge(an_ask("n2"))
    assert (no.reason, no.used, no.limit) == (Reason.MIN_HEALTHY, 7, 8)


@pytest.mark.parametrize(
    "node",
    [
        a_node("n0", schedulable=False),
        a_node("n0", leaving=True),
        a_node("n0", taints=("ToBeDeletedByClusterAutoscaler",)),
    ],
    ids=["cordoned", "being deleted", "autoscaler deletes it"],
)
def test_healthy_is_ready_schedulable_and_staying(node: object) -> None:
    core = Core(a_policy(limits=[{"scope": "Cluster", "minHealthy": 10}]))
    core.fleet(10)
    core.nodes(node)  # type: ignore[arg-type]
    assert core.judge(an_ask("n1")).used == 8


def test_control_plane_wants_all_others_healthy_the_starting_ones_too() -> None:
    core = Core()
    core.fleet(100)
    core.fleet(3, CONTROL_PLANE, "cp")
    assert core.judge(an_ask("cp0")).allowed
    core.nodes(a_node("cp3", CONTROL_PLANE, ready=False, born=T0, since=T0))
    no = core.judge(an_ask("cp0"))
    assert (no.reason, no.scope) == (Reason.MIN_HEALTHY, "control-plane")
    assert core.judge(an_ask("cp3")).allowed


def test_host_permits_have_their_own_limit_and_leave_room_for_others() -> None:
    core = Core()
    core.fleet(100)
    hosts = [core.ask(an_ask(f"n{i}", Disruption.HOST)).allowed for i in range(20)]
    assert sum(hosts) == 5
    assert [core.ask(an_ask(f"n{50 + i}")).allowed for i in range(3)] == [True, True, False]


def test_an_upgrade_moves_the_permit_to_the_limits_of_the_stronger_class() -> None:
    core = Core()
    core.fleet(100)
    for number in range(3):
        assert core.ask(an_ask(f"n{number}", Disruption.HOST)).allowed
    assert core.ask(an_ask("n0", Disruption.NODE)).allowed
    assert core.ask(an_ask("n1", Disruption.NODE)).allowed
    assert core.judge(an_ask("n2", Disruption.NODE)).reason is Reason.CONCURRENCY_LIMIT
    assert core.judge(an_ask("n2", Disruption.HOST)).permit  # what it has, it keeps


def test_several_policies_apply_and_the_tightest_decides() -> None:
    core = Core(
        a_policy("wide", limits=[{"scope": "Cluster", "maxConcurrent": 5}]),
        a_policy(
            "gpu",
            nodes={"selector": {"matchLabels": {POOL: "gpu"}}},
            limits=[{"scope": "Cluster", "maxConcurrent": 1}],
        ),
    )
    core.fleet(10, {POOL: "gpu"}, "g")
    core.fleet(10, {}, "n")
    assert core.ask(an_ask("g0")).allowed
    assert "policy gpu" in core.judge(an_ask("g1")).message
    assert [core.ask(an_ask(f"n{i}")).allowed for i in range(5)] == [True] * 4 + [False]


def test_permits_of_nodes_that_a_policy_does_not_cover_are_not_in_its_way() -> None:
    pools = {
        pool: a_policy(
            pool,
            nodes={"selector": {"matchLabels": {POOL: pool}}},
            limits=[{"scope": "Cluster", "maxConcurrent": 1}],
        )
        for pool in ("cpu", "gpu")
    }
    core = Core(*pools.values())
    core.fleet(10, {POOL: "gpu"}, "g")
    core.fleet(10, {POOL: "cpu"}, "c")
    assert core.ask(an_ask("c0")).allowed
    assert core.ask(an_ask("g0")).allowed
    core.nodes(a_node("g0", {POOL: "cpu"}))  # its permit was given as one of the pool gpu
    assert "policy gpu" in core.judge(an_ask("g1")).message


def test_what_no_policy_covers_has_the_built_in_limits() -> None:
    core = Core(a_policy("rollouts", operations=["Rollout"], limits=[CLUSTER_2]))
    core.fleet(100)
    core.fail(*(f"n{i}" for i in range(30)))
    assert core.judge(an_ask("n0")).reason is Reason.BREAKER_OPEN


def test_per_node_counts_jobs_not_the_pauses_within_one() -> None:
    core = Core(a_policy(limits=[CLUSTER_2], perNode={"maxActs": 2, "within": "24h"}))
    core.fleet(20)
    for job in ("first", "first", "first", "second"):
        core.release(core.ask(an_ask("n0", holder=job)).permit)
        core.step(hours=1)
    no = core.judge(an_ask("n0", holder="third"))
    assert (no.reason, no.used, no.limit) == (Reason.PER_NODE, 2, 2)
    assert no.look_again_at == T0 + timedelta(hours=24)
    assert core.judge(an_ask("n0", holder="second")).allowed
    core.step(hours=24)
    assert core.judge(an_ask("n0", holder="third")).allowed


def test_excluded_nodes_are_nobodys() -> None:
    core = Core()
    core.fleet(10)
    core.nodes(a_node("n0", {"kubenode.io/hands-off": "true"}))
    assert core.judge(an_ask("n0")).reason is Reason.EXCLUDED


@pytest.mark.parametrize(
    ("pause", "stopped"),
    [
        ({}, {"a0", "b0"}),
        ({"scope": "Label", "label": ZONE, "value": "a"}, {"a0"}),
        ({"scope": "Node", "value": "b0"}, {"b0"}),
    ],
)
def test_a_pause_stops_what_it_names_until_it_ends(
    pause: dict[str, str], stopped: set[str]
) -> None:
    until = (T0 + timedelta(hours=1)).isoformat().replace("+00:00", "Z")
    given = {"until": until, "by": "ann", "why": "release"} | pause
    core = Core(a_policy(limits=[CLUSTER_2], pauses=[given]))
    core.fleet(10, {ZONE: "a"}, "a")
    core.fleet(10, {ZONE: "b"}, "b")
    for node in ("a0", "b0"):
        verdict = core.judge(an_ask(node))
        assert verdict.allowed == (node not in stopped)
        if node in stopped:
            assert verdict.reason is Reason.PAUSED and "by ann: release" in verdict.message
            assert verdict.look_again_at == T0 + timedelta(hours=1)
    core.step(hours=1)
    assert core.judge(an_ask("a0")).allowed


def test_what_is_asked_for_but_not_enforced_yet_refuses_and_names_the_field() -> None:
    core = Core(a_policy(limits=[{"scope": "Fleet", "group": "prod", "maxConcurrent": "1%"}]))
    core.fleet(10)
    verdict = core.judge(an_ask("n0"))
    assert verdict.reason is Reason.POLICY_INVALID and "spec.limits[0]" in verdict.message


@pytest.mark.exhaustive
def test_an_evacuation_that_comes_anyway_is_exempt_from_concurrency_and_rate_alone() -> None:
    core = Core(a_policy(limits=[CLUSTER_2, {"scope": "Cluster", "minHealthy": 7}]))
    core.fleet(10)
    granted = [
        core.ask(an_ask(f"n{i}", operation=Operation.EVACUATE, inevitable=True)).allowed
        for i in range(5)
    ]
    assert granted == [True, True, True, False, False]
    repair = an_ask("n9", operation=Operation.REPAIR, inevitable=True)
    assert not core.judge(repair).allowed


def test_askers_are_told_different_times() -> None:
    core = Core(a_policy(limits=[{"scope": "Cluster", "maxConcurrent": 0}]))
    core.fleet(50)
    times = {core.judge(an_ask(f"n{i}")).look_again_at for i in range(50)}
    assert len(times) > 25


def test_the_reason_that_a_person_must_see_comes_first() -> None:
    core = Core(a_policy(limits=[{"scope": "Cluster", "maxConcurrent": 0}], pauses=[{}]))
    core.fleet(10)
    assert core.judge(an_ask("n0")).reason is Reason.PAUSED


ANY_CLASS = {"classes": ["Host", "Pods", "Node"]}


def test_an_upgrade_does_not_stand_in_its_own_way() -> None:
    core = Core(a_policy(limits=[{"scope": "Cluster", "maxConcurrent": 1, "minHealthy": 9}]))
    core.fleet(10)
    assert core.ask(an_ask("n0", Disruption.HOST)).allowed  # 9 healthy are left
    assert core.ask(an_ask("n0", Disruption.NODE)).allowed  # the same node is out, still 9
    assert core.judge(an_ask("n1")).reason is Reason.MIN_HEALTHY


def test_an_upgrade_under_a_limit_for_all_classes_needs_no_second_slot() -> None:
    core = Core(a_policy(limits=[{"scope": "Cluster", "maxConcurrent": 1} | ANY_CLASS]))
    core.fleet(10)
    assert core.ask(an_ask("n0", Disruption.HOST)).allowed
    assert core.ask(an_ask("n0", Disruption.NODE)).allowed
    assert not core.judge(an_ask("n1", Disruption.HOST)).allowed


def test_while_an_upgrade_is_unclear_the_permit_counts_as_both_classes() -> None:
    core = Core()
    core.fleet(20)
    held = core.ledger.get(core.ask(an_ask("n0", Disruption.HOST)).permit)
    assert held is not None
    core.ledger.grant(held, Disruption.NODE, core.now)
    held.also, held.unsure = frozenset({Disruption.HOST}), 1
    for class_ in (Disruption.HOST, Disruption.NODE):
        assert core.judge(an_ask("n1", class_)).reason is Reason.CONCURRENCY_LIMIT


def test_a_grant_that_may_not_be_written_is_judged_anew_without_counting_itself() -> None:
    rate = {"count": 1, "per": "1h"}
    core = Core(a_policy(limits=[{"scope": "Cluster", "maxConcurrent": 1, "rate": rate}]))
    core.fleet(20)
    held = core.ledger.get(core.ask(an_ask("n0")).permit)
    assert held is not None
    held.unsure = 1
    again = core.judge(an_ask("n0"))
    assert again.allowed and again.permit == ""
    assert not core.judge(an_ask("n1")).allowed


def test_a_stronger_class_takes_a_token_of_its_own() -> None:
    rate = {"count": 1, "per": "1h"}
    core = Core(a_policy(limits=[{"scope": "Cluster", "rate": rate}]))
    core.fleet(20)
    assert core.ask(an_ask("n0", Disruption.PODS)).allowed
    assert core.judge(an_ask("n0", Disruption.NODE)).reason is Reason.RATE_LIMIT
    core.step(minutes=60)
    assert core.ask(an_ask("n0", Disruption.NODE)).allowed
