"""What `kubenode defender` prints, where it is worked out rather than copied."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.clock import T0
from support.defender_core import Core, a_node, a_policy, an_ask

from defender.decision.history import Doubt, History
from defender.decision.verdict import refusals
from defender.overview.series import percentile
from kubenode.api.v1alpha1 import Disruption, Operation, Reason
from kubenode.api.v1alpha1.defenderpolicy import BreakerState, BreakerStatus, DefenderPolicyStatus
from kubenode.cli.defender_control import risk_control
from kubenode.cli.defender_explain import explained
from kubenode.cli.defender_objects import DefenderObjects
from kubenode.cli.defender_simulate import doubts, since_from
from kubenode.cli.defender_status import tightest
from kubenode.cli.defender_why import REMEDIES, remedy
from kubenode.cli.exits import Refusal


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [([], 50, None), ([7], 50, 7), ([1, 2, 3, 4], 50, 2), ([1, 2, 3, 4], 90, 4), ([1, 2], 90, 2)],
)
def test_percentiles(values: list[float], percent: int, expected: float | None) -> None:
    assert percentile(values, percent) == expected


@given(st.lists(st.integers(0, 100), min_size=1), st.integers(1, 100))
def test_a_percentile_is_the_least_value_that_enough_do_not_exceed(
    values: list[int], percent: int
) -> None:
    found = percentile(sorted(values), percent)
    assert found is not None
    assert sum(value <= found for value in values) * 100 >= percent * len(values)
    assert sum(value < found for value in values) * 100 < percent * len(values)


def budget(scope: str, room: int, used: int = 0) -> dict[str, Any]:
    return {"policy": "p", "index": 0, "kind": "maxConcurrent", "scope": scope, "room": room,
            "used": used, "limit": used + room}  # fmt: skip


def test_of_many_scopes_the_tightest_are_shown_and_the_others_counted() -> None:
    rows = [budget("cluster", 9), *(budget(f"rack=r{i}", i) for i in range(6))]
    shown = tightest(rows)
    assert [row["scope"] for row in shown] == [
        "cluster", "rack=r0", "rack=r1", "rack=r2", "rack: 3 more",
    ]  # fmt: skip
    assert shown[-1]["room"] == ">=3"


def test_every_reason_for_a_no_has_a_remedy() -> None:
    assert set(REMEDIES) == set(Reason) - {Reason.GRANTED}


def test_a_full_scope_names_who_holds_its_permits() -> None:
    core = Core(a_policy(limits=[{"scope": "Cluster", "maxConcurrent": 1}]))
    core.fleet(5)
    core.ask(an_ask("n1"))
    (no,) = refusals(an_ask("n2"), core.control, core.now)
    assert remedy(no, core.control) == "a permit of cluster must come back: n1 (job-n1)"


def test_a_simulation_says_what_it_does_not_know() -> None:
    past = History(T0, T0 + timedelta(hours=1), [], [], [], [], {}, Doubt())
    assert any("no Kube Defender was asked (--url)" in told for told in doubts(past))
    past.doubt = Doubt(T0 + timedelta(minutes=5), guessed=2, dropped=3, gone={"n1"}, unseen=4)
    told = "\n".join(doubts(past))
    for words in ("started at 2026-01-01 12:05 UTC", "3 requests were forgotten",
                  "2 requests had no permit", "left out: n1", "4 nodes are not ready"):  # fmt: skip
        assert words in told


@pytest.mark.parametrize("opened", [True, False])
def test_explain_takes_breakers_from_the_policys_status_and_computes_none(opened: bool) -> None:
    entry = BreakerStatus(scope="cluster", state=BreakerState.OPEN, since=T0, why="storm")
    status = DefenderPolicyStatus(breaker=[entry] if opened else [])
    limits = [{"scope": "Cluster", "maxConcurrent": 5}]
    policy = replace(a_policy(limits=limits), status=status)
    nodes = {f"n{i}": a_node(f"n{i}", ready=i > 6 or opened) for i in range(12)}
    objects = DefenderObjects(nodes, [policy], [], [])
    now = T0 + timedelta(hours=1)
    report = explained(
        objects, risk_control(objects, now), "n9", Operation.REPAIR, Disruption.HOST, now
    )
    (cluster,) = [row for row in report["breakers"] if row["scope"] == "cluster"]
    assert cluster["state"] == ("Open" if opened else "Closed")
    assert ("BreakerOpen" in {no["reason"] for no in report["against"]}) is opened


@pytest.mark.parametrize("text", ["0s", "200h", "soon"])
def test_a_span_has_bounds(text: str) -> None:
    with pytest.raises(Refusal, match="--since"):
        since_from(text)
