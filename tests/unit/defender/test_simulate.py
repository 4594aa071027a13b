"""`simulate` on histories whose answers were worked out by hand."""

from datetime import timedelta

import pytest
from support.clock import T0
from support.defender_core import ZONE, a_node, a_policy, an_ask

from defender.decision.history import Doubt, History, PastFault, RecordedRequest
from defender.decision.jobs import JobViewSpec, ObservedJob
from defender.decision.ledger import LedgerPermit
from defender.decision.policies import LoadedPolicy
from defender.decision.simulate import SimulationOutcome, reasons, simulate
from kubenode.api.v1alpha1 import Disruption, Operation, Reason
from kubenode.api.v1alpha1.permit import Holder
from kubenode.runtime.kube.objects import KubeObjectMeta, Node

MINUTE = timedelta(minutes=1)


def wish(
    node: str, at: float, lasts: float | None = 10, until: float | None = None
) -> RecordedRequest:
    """Minutes from the start."""
    end = T0 + until * MINUTE if until is not None else None
    kept = lasts * MINUTE if lasts is not None else None
    return RecordedRequest(an_ask(node), T0 + at * MINUTE, end, kept)


def past(
    *wishes: RecordedRequest,
    faults: tuple[PastFault, ...] = (),
    before: tuple[LedgerPermit, ...] = (),
    nodes: list[Node] | None = None,
    hours: float = 2,
) -> History:
    fleet = nodes or [a_node(f"n{i}", {ZONE: "ab"[i % 2]}) for i in range(20)]
    ordered = sorted(wishes, key=lambda w: w.at)
    end = T0 + timedelta(hours=hours)
    return History(T0, end, fleet, ordered, list(faults), list(before), {}, Doubt())


def limited(**limit: object) -> LoadedPolicy:
    return a_policy(limits=[{"scope": "Cluster"} | limit], breaker={"trip": {"minNodes": 1000}})


def granted(outcome: SimulationOutcome) -> dict[str, float]:
    """Minutes from the start, by node."""
    return {
        fate.wish.ask.node: (fate.granted - T0) / MINUTE
        for fate in outcome.fates
        if fate.granted is not None
    }


def test_one_at_a_time_each_waits_for_the_one_before() -> None:
    asked = past(wish("n1", 0), wish("n2", 1), wish("n3", 2))
    outcome = simulate(asked, [limited(maxConcurrent=1)])
    assert granted(outcome) == {"n1": 0, "n2": 10, "n3": 20}
    assert outcome.waits() == [timedelta(), 9 * MINUTE, 18 * MINUTE]
    assert outcome.most_disrupted == (1, T0)
    assert reasons(outcome.fates) == {(Reason.CONCURRENCY_LIMIT, "cluster"): 2}


def test_a_wider_limit_grants_all_at_once() -> None:
    asked = past(wish("n1", 0), wish("n2", 1), wish("n3", 2))
    outcome = simulate(asked, [limited(maxConcurrent=3)])
    assert granted(outcome) == {"n1": 0, "n2": 1, "n3": 2}
    assert outcome.most_disrupted == (3, T0 + 2 * MINUTE)
    assert not reasons(outcome.fates)


def test_a_rate_spaces_them() -> None:
    policy = limited(rate={"count": 1, "per": "10m"})
    outcome = simulate(past(*(wish(f"n{i}", 0, 1) for i in range(3))), [policy])
    times = sorted(granted(outcome).values())
    assert times == pytest.approx([0, 10, 20], abs=0.6)


def test_who_gives_up_is_not_granted_later() -> None:
    asked = past(wish("n1", 0, 30), wish("n2", 1, until=5), wish("n3", 1))
    outcome = simulate(asked, [limited(maxConcurrent=1)])
    assert granted(outcome) == {"n1": 0, "n3": 30}
    assert [fate.withdrawn for fate in outcome.fates] == [False, True, False]


def test_what_never_comes_back_is_held_to_the_end() -> None:
    outcome = simulate(past(wish("n1", 0, None), wish("n2", 1)), [limited(maxConcurrent=1)])
    assert granted(outcome) == {"n1": 0}
    assert outcome.most_unhealthy == (1, T0)


def test_a_pause_holds_everything() -> None:
    policy = a_policy(
        limits=[{"scope": "Cluster", "maxConcurrent": 1}], pauses=[{"scope": "Cluster"}]
    )
    outcome = simulate(past(wish("n1", 0)), [policy])
    assert not outcome.granted
    assert reasons(outcome.fates) == {(Reason.PAUSED, "cluster"): 1}


def test_permits_from_before_take_their_place_until_they_come_back() -> None:
    old = LedgerPermit(
        name="old",
        node="n0",
        operation=Operation.REPAIR,
        holder=Holder(kind="RemedyOperationJob", name="old", uid="old"),
        grants=[(Disruption.NODE, T0 - 5 * MINUTE)],
        expires_at=T0 + timedelta(days=1),
        uid="old",
    )
    asked = past(wish("n1", 0), before=(old,))
    asked.ends["old"] = T0 + 7 * MINUTE
    assert granted(simulate(asked, [limited(maxConcurrent=1)])) == {"n1": 7}
    assert old.open  # the history can be played again
    assert granted(simulate(asked, [limited(maxConcurrent=1)])) == {"n1": 7}


def a_job(node: str) -> ObservedJob:
    meta = KubeObjectMeta(name=f"job-{node}", uid=f"uid-job-{node}", creation_timestamp=T0)
    return ObservedJob(meta, JobViewSpec(node_name=node, mode="Enforce", fault_class="dead"))


def test_a_breaker_that_would_have_opened_is_told() -> None:
    down = tuple(PastFault(f"n{i}", T0 + MINUTE, None, silent=True) for i in range(0, 10, 2))
    asked = past(*(wish(f"n{i}", 2) for i in range(0, 10, 2)), faults=down)
    limits = [{"scope": "Cluster", "maxConcurrent": 20}]
    calm = {"trip": {"unhealthyRatio": "90%", "newFaultsPer10m": "90%"}}
    usual, easy = a_policy(limits=limits), a_policy(limits=limits, breaker=calm)
    # Half of zone a is down; its nodes leave the ratio of the cluster, so that one stays closed.
    first, second = simulate(asked, [usual]), simulate(asked, [easy])
    assert [status.scope for _, status in first.openings] == [f"{ZONE}=a"]
    assert not second.openings
    assert len(second.granted) == 5
    assert len(first.granted) < 5
    assert reasons(first.fates)[Reason.BREAKER_OPEN, f"{ZONE}=a"] >= 4


def test_a_repair_heals_the_node_so_that_it_counts_as_healthy_again() -> None:
    fault = PastFault("n1", T0, None, silent=True, uid="uid-job-n1", job=a_job("n1"))
    asked = past(wish("n1", 1, 10), wish("n2", 2, 10), faults=(fault,))
    outcome = simulate(asked, [limited(maxConcurrent=5, minHealthy=19)])
    # n2 is healthy: taking it leaves 18 while n1 is down, and 19 once it is repaired.
    assert granted(outcome) == {"n1": 1, "n2": 11}
    assert reasons(outcome.fates) == {(Reason.MIN_HEALTHY, "cluster"): 1}


@pytest.mark.exhaustive
def test_a_long_line_is_worked_off_slot_by_slot() -> None:
    nodes = [a_node(f"n{i}", {ZONE: "ab"[i % 2]}) for i in range(60)]
    wishes = [wish(f"n{i}", i, 30) for i in range(60)]
    outcome = simulate(past(*wishes, nodes=nodes, hours=6), [limited(maxConcurrent=2)])
    # One slot is given out at 0, 30, ... 360 minutes, the other at 1, 31, ... 331.
    assert len(outcome.granted) == 13 + 12
    assert outcome.most_disrupted == (2, T0 + MINUTE)
    assert outcome.judged < 5_000
