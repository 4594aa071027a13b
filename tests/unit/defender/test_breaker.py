"""Breakers over a fleet: what counts as a fault, what gets dark, what is refused, what passes."""

from datetime import timedelta
from typing import Any

import pytest
from support.breaker_core import Fleet, a_job
from support.clock import T0
from support.defender_core import ZONE, a_policy, an_ask

from defender.decision.jobs import JobRung, JobStep
from kubenode.api.v1alpha1 import Disruption, Operation, Reason, default_policy
from kubenode.api.v1alpha1.defenderpolicy import BreakerState

OPEN, HALF_OPEN = BreakerState.OPEN, BreakerState.HALF_OPEN
MINUTE = timedelta(minutes=1)
MANY = [{"scope": "Cluster", "maxConcurrent": 1000}]
HOST_OR_NODE = [{"scope": "Cluster", "classes": ["Host", "Pods", "Node"], "maxConcurrent": 2}]


def the_default(**breaker: Any) -> Any:
    spec = default_policy().to_dict()["spec"]
    return a_policy(**(spec | ({"breaker": breaker} if breaker else {})))


def lenient(**breaker: Any) -> Any:
    """Only the breaker is in the way."""
    return a_policy(limits=MANY, breaker=breaker)


def three_zones(*policies: Any, each: int = 20) -> Fleet:
    fleet = Fleet(*(policies or (the_default(),)))
    fleet.zones(each)
    return fleet


# -- what counts as a fault -----------------------------------------------------------------------


def test_nodes_that_are_not_ready_or_that_nobody_hears_from_are_faults() -> None:
    fleet = three_zones()
    old(fleet, "a", 3)
    old(fleet, "a", 2, first=3, ready="Unknown")
    assert fleet.states() == {}  # 5 of 20 is 25 %
    old(fleet, "a", 1, first=5)
    assert fleet.states() == {"a": OPEN}


def old(fleet: Fleet, prefix: str, count: int, first: int = 0, ready: str = "False") -> None:
    """Nodes that failed an hour ago: no new faults."""
    for number in range(first, first + count):
        fleet.put(f"{prefix}{number}", ready, since=T0 - timedelta(hours=1))


def test_a_node_that_is_only_cordoned_is_no_fault() -> None:
    fleet = three_zones()
    for number in range(20):
        fleet.put(f"a{number}", cordoned=True)
    assert fleet.states() == {}


def test_f04_nodes_in_their_grace_never_ready_or_leaving_open_nothing() -> None:
    fleet = three_zones()
    for number in range(20):
        fleet.put(f"new{number}", "False", labels={ZONE: "a"}, born=T0, since=T0)
        if number >= 3:
            fleet.job(a_job(f"new{number}"))
    assert fleet.states() == {}
    fleet.step(minutes=30)  # never ready since
    assert fleet.states() == {}
    for number in range(3):  # they were ready once, and failed young
        fleet.put(f"new{number}", "True")
        fleet.put(f"new{number}", "False")
    assert fleet.states() == {"a": OPEN}


def test_an_acting_job_is_a_fault_although_the_kubelet_sees_none() -> None:
    fleet = three_zones()
    for number in range(6):
        fleet.job(a_job(f"a{number}", created=T0 - timedelta(hours=2)))
    assert fleet.states() == {"a": OPEN}
    assert "6 of 20 nodes are unhealthy" in fleet.control.breakers.status("default")[0].why


@pytest.mark.parametrize(
    "job",
    [
        {"mode": "DryRun"},
        {"ladder": (JobRung(steps=({"notify": {}}, {"collect": {}})),)},
        {"ladder": (JobRung(steps=({"agent": {"action": "RunCheck"}},)),)},
        {"deadline": T0 + timedelta(hours=1)},
        {"phase": "Succeeded", "created": T0 - timedelta(hours=1)},
    ],
    ids=["shadow", "only tells", "only looks", "planned", "closed long ago"],
)
def test_jobs_that_are_no_faults(job: dict[str, Any]) -> None:
    fleet = three_zones()
    for number in range(20):
        fleet.job(a_job(f"a{number}", **job))
    assert fleet.states() == {}


def test_a_node_and_its_job_are_one_fault_and_a_job_that_goes_is_none() -> None:
    fleet = three_zones()
    old(fleet, "a", 3)
    for number in range(5):
        fleet.job(a_job(f"a{number}", created=T0 - timedelta(hours=1)))
    assert fleet.states() == {}  # 5 of 20
    fleet.job(a_job("a9", created=T0 - timedelta(hours=1)))
    assert fleet.states() == {"a": OPEN}
    for number in range(6):
        if f"job-a{number}" in fleet.jobs:
            fleet.no_job(f"job-a{number}")
    watch = next(w for w in fleet.control.breakers.watches() if w.policy.name == "default")
    assert watch.group(f"{ZONE}=a").unhealthy == 4


def test_what_fails_under_a_permit_of_ours_is_our_doing_until_the_permit_is_given_back() -> None:
    fleet = three_zones(lenient())
    permits = []
    for number in range(6):
        ask = an_ask(f"a{number}", operation=Operation.ROLLOUT)
        permits.append(fleet.ask(ask).permit)
    fleet.step(minutes=1)
    fleet.down("a", 6)
    assert fleet.states() == {}
    for permit in permits:
        fleet.release(permit)
    fleet.step(seconds=1)
    assert fleet.states() == {"a": OPEN}


def test_a_node_that_failed_before_its_permit_stays_a_fault() -> None:
    fleet = three_zones(lenient(trip={"newFaultsPer10m": "100%"}))
    fleet.down("a", 5)
    fleet.step(minutes=1)
    for number in range(5):
        assert fleet.ask(an_ask(f"a{number}", operation=Operation.REPLACE)).allowed
    fleet.down("a", 1, first=5)
    assert fleet.states() == {"a": OPEN}


def test_new_faults_open_what_old_ones_do_not_and_recovered_ones_count_by_their_jobs() -> None:
    fleet = three_zones(each=100)
    for number in range(9):
        fleet.put(f"a{number}", "False", since=T0 - 11 * MINUTE)
        fleet.put(f"b{number}", "False", since=T0 - 9 * MINUTE)
    assert fleet.states() == {}
    fleet.job(a_job("a50"))  # one new, ten in all
    fleet.job(a_job("b50", "Succeeded", created=T0 - 9 * MINUTE))  # ten new ones
    assert fleet.states() == {"b": OPEN}


def test_escalations_count_per_rule_and_rung_within_their_time() -> None:
    fleet, day = three_zones(), T0 - timedelta(days=1)
    gone = JobStep(rung=0, finished_at=T0 - timedelta(hours=2))
    early = JobStep(rung=1, started_at=T0 - timedelta(minutes=61))
    begun = JobStep(rung=1, started_at=T0 - 10 * MINUTE)
    fleet.job(a_job("a0", "Verifying", rung=1, steps=(gone, begun), created=day))
    fleet.job(a_job("a1", "Verifying", rung=1, steps=(gone, begun), rule="another", created=day))
    fleet.job(a_job("a2", "Verifying", rung=1, steps=(gone, early), created=day))
    fleet.job(a_job("b3", "Failed", rung=1, steps=(gone, begun), created=day))
    assert fleet.states() == {}
    fleet.job(a_job("c4", "Running", rung=2, steps=(gone, begun), created=day))
    assert fleet.states() == {"cluster": OPEN}
    (said,) = fleet.control.breakers.status("default")
    assert "3 jobs of a-rule climbed to rung 1 within 1h" in said.why


@pytest.mark.parametrize(
    ("nodes", "failed", "opens"),
    [
        (1, 1, False),
        (2, 2, False),
        (3, 2, False),
        (3, 3, True),
        (4, 3, True),
        (5, 3, True),
        (9, 2, False),
    ],
)
def test_f11_small_pools_open_only_at_min_nodes(nodes: int, failed: int, opens: bool) -> None:
    fleet = Fleet(a_policy(limits=MANY, breaker={"scopes": [{"scope": "Label", "label": "pool"}]}))
    for number in range(nodes):
        fleet.put(f"n{number}", labels={"pool": "p"})
    fleet.down("n", failed)
    assert bool(fleet.states()) is opens


def test_a_host_whose_clock_is_wrong_neither_hides_its_fault_nor_makes_it_last() -> None:
    fleet = three_zones(each=100)
    fleet.up("a", 10)
    for number in range(10):  # seen ready a moment ago; the hosts write 1970, or what is to come
        fleet.put(f"a{number}", "False", since=T0 - timedelta(days=9000))
        fleet.put(f"b{number}", "False", since=T0 + timedelta(days=9))
    assert fleet.states() == {"a": OPEN, "b": OPEN}
    watch = next(w for w in fleet.control.breakers.watches() if w.policy.name == "default")
    assert watch.group(f"{ZONE}=b").failed_since(T0) == 0


def test_a_restart_changes_no_answer_whatever_is_heard_first() -> None:
    fleet = three_zones(each=100)
    for number in range(9):
        fleet.put(f"a{number}", "False", since=T0 - (8 + number) * MINUTE)
        fleet.job(a_job(f"b{number}", created=T0 - number * MINUTE))
    again = fleet.restarted(the_default())
    for _ in range(3):
        assert again.states() == fleet.states() == {}
        both = [next(iter(each.control.breakers.watches())) for each in (fleet, again)]
        for scope in (f"{ZONE}=a", f"{ZONE}=b", "cluster"):
            state = both[0].state(scope)
            assert both[0].observe(scope, state, fleet.now) == both[1].observe(
                scope, state, fleet.now
            )
        fleet.step(minutes=5)
        again.step(minutes=5)


# -- scopes ---------------------------------------------------------------------------------------


def test_two_zones_go_on_healing_while_the_third_is_dark() -> None:
    fleet = three_zones()
    fleet.down("a", 20)
    fleet.put("b7", "False")
    assert fleet.states() == {"a": OPEN}
    dark = fleet.judge(an_ask("a3"))
    assert (dark.reason, dark.scope) == (Reason.BREAKER_OPEN, f"{ZONE}=a")
    assert "20 of 20 nodes are unhealthy" in dark.message or "failed within" in dark.message
    assert fleet.judge(an_ask("b7")).allowed


def test_when_all_zones_are_dark_all_are_refused_and_the_rest_of_the_cluster_is_not() -> None:
    fleet = three_zones()
    for number in range(10):
        fleet.put(f"free{number}")
    for zone in "abc":
        fleet.down(zone, 20)
    assert fleet.states() == {"a": OPEN, "b": OPEN, "c": OPEN}
    assert fleet.judge(an_ask("b1")).reason is Reason.BREAKER_OPEN
    assert fleet.judge(an_ask("free1")).allowed


def test_a_wave_too_thin_for_a_zone_opens_the_cluster() -> None:
    zones = [{"scope": "Cluster"}, {"scope": "Label", "label": ZONE}]
    fleet = three_zones(lenient(scopes=zones, trip={"unhealthyRatio": 10}), each=100)
    for zone in "abc":
        old(fleet, zone, 4)
    assert fleet.states() == {"cluster": OPEN}
    assert fleet.judge(an_ask("c50")).scope == "cluster"


def test_faults_of_a_dark_time_are_not_new_for_the_cluster_when_the_zone_half_opens() -> None:
    fleet = three_zones(lenient(), each=100)
    for minute in range(11):
        fleet.down("a", 10, first=10 * minute % 100)
        fleet.step(minutes=1)
    fleet.up("a", 100)
    for number in range(100):  # their jobs were made all the time, and are over
        created = T0 + number % 11 * MINUTE
        fleet.job(a_job(f"a{number}", "Cancelled", created=created))
    assert fleet.states() == {"a": OPEN}
    path = []
    for _ in range(30):
        fleet.step(minutes=1)
        path.append(fleet.states())
    assert {"a": HALF_OPEN} in path and all("cluster" not in states for states in path)


def test_labels_stand_from_wide_to_narrow_and_a_node_may_move() -> None:
    scopes = [{"scope": "Label", "label": ZONE}, {"scope": "Label", "label": "rack"}]
    fleet = Fleet(lenient(scopes=scopes))
    for number in range(40):
        fleet.put(f"n{number}", labels={ZONE: "a", "rack": f"r{number // 10}"})
    fleet.down("n", 10)
    assert fleet.states() == {"r0": OPEN}  # 10 of 40 of the zone, but they are dark
    fleet.down("n", 8, first=10)
    assert fleet.states() == {"r0": OPEN, "r1": OPEN}
    fleet.put("n0", "False", labels={ZONE: "a", "rack": "r3"})
    assert fleet.judge(an_ask("n0")).allowed
    assert fleet.judge(an_ask("n1")).scope == "rack=r0"


def test_several_policies_each_have_their_own_breakers() -> None:
    fleet = Fleet(
        a_policy("all", limits=MANY, breaker={"trip": {"minNodes": 1000}}),
        a_policy("gpu", nodes={"selector": {"matchLabels": {"gpu": "yes"}}}, limits=MANY),
    )
    for number in range(10):
        fleet.put(f"g{number}", labels={"gpu": "yes"})
        fleet.put(f"n{number}")
    fleet.down("g", 5)
    fleet.down("n", 5)
    assert "cluster of policy gpu" in fleet.judge(an_ask("g9")).message
    assert fleet.judge(an_ask("n9")).allowed


# -- refusals -------------------------------------------------------------------------------------


def test_thousands_who_wait_do_not_come_back_at_once_nor_before_it_may_half_open() -> None:
    fleet = three_zones(each=150)
    fleet.down("a", 150)
    times = [fleet.judge(an_ask(f"a{number}")).look_again_at for number in range(150)]
    assert all(at is not None and T0 + 10 * MINUTE <= at <= T0 + 15 * MINUTE for at in times)
    assert max(times.count(at) for at in set(times)) < 5


def test_an_inevitable_evacuation_passes_and_another_does_not() -> None:
    fleet = three_zones(lenient())
    fleet.down("a", 20)
    evacuation = an_ask("a3", operation=Operation.EVACUATE)
    assert fleet.judge(evacuation).reason is Reason.BREAKER_OPEN
    assert fleet.judge(evacuation.model_copy(update={"inevitable": True})).allowed


def test_f46_an_open_breaker_takes_nothing_back_and_asks_nothing_of_who_gives_back() -> None:
    """Uncordon, release, cancel and verify never ask; what is held stays held and can be freed."""
    fleet = three_zones(lenient())
    permit = fleet.ask(an_ask("a3")).permit
    fleet.down("a", 20)
    assert fleet.states() == {"a": OPEN}
    again = fleet.judge(an_ask("a3"))
    assert again.allowed and again.permit == permit
    assert fleet.judge(an_ask("a3", Disruption.HOST)).permit == permit
    fleet.release(permit)
    assert fleet.judge(an_ask("a3")).reason is Reason.BREAKER_OPEN


def test_half_open_lets_few_at_once_then_more_and_closes_when_limits_rule() -> None:
    fleet = three_zones(a_policy(limits=HOST_OR_NODE, breaker={}), each=40)
    fleet.down("a", 20)
    assert fleet.states() == {"a": OPEN}
    fleet.up("a", 18)
    fleet.step(minutes=5)
    assert fleet.judge(an_ask("a18")).reason is Reason.BREAKER_OPEN
    fleet.step(minutes=5)
    assert fleet.states() == {"a": HALF_OPEN}
    first = fleet.ask(an_ask("a18"))
    no = fleet.judge(an_ask("a19", Disruption.HOST))
    assert first.allowed and (no.reason, no.used, no.limit) == (Reason.BREAKER_OPEN, 1, 1)
    assert no.look_again_at is not None and no.look_again_at > fleet.now
    assert fleet.judge(an_ask("b1")).allowed
    fleet.release(first.permit)
    assert fleet.judge(an_ask("a19")).allowed
    fleet.step(minutes=5)
    assert fleet.states() == {}
    states = [each.state for each in fleet.control.breakers.history("default")]
    assert states == [OPEN, HALF_OPEN, BreakerState.CLOSED]


def test_trouble_while_half_open_opens_again() -> None:
    fleet = three_zones(lenient(), each=40)
    fleet.down("a", 20)
    fleet.states()
    fleet.up("a", 20)
    fleet.step(seconds=1)
    fleet.step(minutes=10)
    assert fleet.states() == {"a": HALF_OPEN}
    fleet.step(seconds=1)
    fleet.down("a", 4, first=30)  # 10 % of the zone, new
    assert fleet.states() == {"a": OPEN}
    assert "again: 4 of 40 nodes failed" in fleet.control.breakers.status("default")[0].why


def test_while_lists_load_nothing_opens() -> None:
    fleet = Fleet(the_default())
    fleet.control.breakers.loaded = False
    for number in range(3):
        fleet.put(f"n{number}", "False")
        fleet.control.advance(fleet.now)
    assert fleet.judge(an_ask("n0")).reason is Reason.STALE_DATA
    for number in range(3, 100):
        fleet.put(f"n{number}")
    fleet.control.breakers.loaded = True
    assert fleet.states() == {}


# -- reserved slots -------------------------------------------------------------------------------


def false_wave(**breaker: Any) -> Fleet:
    """A detector takes half of the fleet for broken, and one node really is."""
    fleet = three_zones(lenient(**breaker))
    for zone in "abc":
        for number in range(10):
            fleet.job(a_job(f"{zone}{number}", fault_class="kernel_deadlock"))
    fleet.job(a_job("a15", fault_class="gpu_missing"))
    return fleet


def real(node: str = "a15", **fields: Any) -> Any:
    said = {"fault_class": "gpu_missing", "evidence": ["Node condition", "HostEvent"]} | fields
    return an_ask(node, **said)


def test_one_real_fault_passes_a_wave_of_false_ones_when_somebody_else_vouches_for_it() -> None:
    fleet = false_wave()
    assert fleet.states() == {"a": OPEN, "b": OPEN, "c": OPEN}
    assert fleet.judge(an_ask("a3", fault_class="kernel_deadlock")).reason is Reason.BREAKER_OPEN
    for refused in (
        real(evidence=["Node condition"]),
        real(evidence=[]),
        real(fault_class="kernel_deadlock"),
        real(fault_class="unknown"),
    ):
        assert fleet.judge(refused).reason is Reason.BREAKER_OPEN, refused
    assert fleet.ask(real()).allowed


def test_at_most_reserved_at_once_per_scope() -> None:
    fleet = false_wave(reserved=1)
    fleet.job(a_job("a16", fault_class="disk_hung"))
    fleet.job(a_job("b16", fault_class="disk_hung"))
    first = fleet.ask(real())
    other = real("a16", fault_class="disk_hung", evidence=["probe"])
    assert first.allowed and fleet.judge(other).reason is Reason.BREAKER_OPEN
    fleet.release(first.permit)
    assert fleet.judge(other).allowed
    assert false_wave(reserved=0).judge(real()).reason is Reason.BREAKER_OPEN


def test_what_was_granted_before_the_storm_takes_no_reserved_slot() -> None:
    fleet = three_zones(lenient())
    assert fleet.ask(an_ask("a19")).allowed
    fleet.step(minutes=1)
    fleet.down("a", 10)
    fleet.job(a_job("a15", fault_class="gpu_missing"))
    assert fleet.ask(real()).allowed


def test_in_a_dark_zone_a_fault_that_no_job_has_named_may_be_the_storms() -> None:
    """Before jobs are made for all, the first of the storm's must not pass for another's."""
    fleet = three_zones(lenient())
    fleet.down("a", 20, ready="Unknown")
    fleet.job(a_job("a0", fault_class="node_unreachable"))
    first = real("a0", fault_class="node_unreachable", evidence=["probe"])
    assert fleet.judge(first).reason is Reason.BREAKER_OPEN
    for number in range(1, 20):
        fleet.job(
            a_job(f"a{number}", fault_class="node_unreachable" if number < 19 else "host_retire")
        )
    assert fleet.judge(first).reason is Reason.BREAKER_OPEN
    assert fleet.judge(real("a19", fault_class="host_retire")).allowed


# -- what is kept ---------------------------------------------------------------------------------


def test_the_status_restores_the_breaker_and_the_calm_begins_anew() -> None:
    fleet = three_zones(lenient())
    fleet.down("a", 20)
    fleet.states()
    fleet.up("a", 20)
    fleet.step(minutes=9)
    kept = _kept(fleet)
    again = fleet.restarted(kept)
    assert again.states() == {"a": OPEN}
    assert again.judge(an_ask("b1")).allowed
    again.step(minutes=4)
    assert again.states() == {"a": OPEN}
    again.step(minutes=1)
    assert again.states() == {"a": HALF_OPEN}
    third = again.restarted(_kept(again))
    assert third.states() == {"a": HALF_OPEN}
    assert len(third.control.breakers.history("default")) == 2
    third.job(a_job("a1", "Succeeded", created=T0 + MINUTE))
    assert third.states() == {"a": HALF_OPEN}


def _kept(fleet: Fleet, **breaker: Any) -> Any:
    """The policy as it is on the server now."""
    breakers, policy = fleet.control.breakers, lenient(**breaker)
    update = {
        "breaker": breakers.status("default"),
        "breaker_history": breakers.history("default"),
    }
    return type(policy)(policy.metadata, policy.spec, policy.status.model_copy(update=update))


def test_a_policy_that_is_edited_keeps_its_breakers_and_loses_scopes_it_names_no_more() -> None:
    fleet = three_zones(lenient())
    fleet.down("a", 20)
    assert fleet.states() == {"a": OPEN}
    fleet.control.govern([lenient(open="1h")], fleet.now)
    assert fleet.states() == {"a": OPEN}
    fleet.control.govern([lenient(scopes=[{"scope": "Cluster"}])], fleet.now)
    assert fleet.states() == {"cluster": OPEN}
    fleet.control.govern(
        [lenient(scopes=[{"scope": "Cluster"}], trip={"minNodes": 500})], fleet.now
    )
    assert fleet.states() == {"cluster": OPEN}  # 20 are calm now
    fleet.step(minutes=10)
    assert fleet.states() == {"cluster": HALF_OPEN}


def test_another_replica_takes_up_what_the_leader_wrote() -> None:
    leader, follower = three_zones(lenient()), three_zones(lenient())
    leader.down("a", 20)
    assert leader.states() == {"a": OPEN}
    follower.control.breakers.adopt(_kept(leader), follower.now)
    assert follower.states() == {"a": OPEN}
    assert follower.judge(an_ask("b1")).allowed
    assert follower.judge(an_ask("a1")).reason is Reason.BREAKER_OPEN


def test_nothing_is_kept_of_scopes_that_are_gone() -> None:
    scopes = [{"scope": "Label", "label": "host"}]
    fleet = Fleet(lenient(scopes=scopes))
    for number in range(50):
        fleet.put("n", labels={"host": f"h{number}"})
        fleet.states()
    watch = next(w for w in fleet.control.breakers.watches() if w.policy.name == "default")
    assert len(watch._groups) <= 1
