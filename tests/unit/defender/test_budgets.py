"""What is shown of the limits' use is what verdicts go by."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.clock import T0
from support.defender_core import ZONE, Core, a_node, a_policy, an_ask

from defender.decision.budgets import LimitBudget, budgets
from kubenode.api.v1alpha1 import Disruption, Reason

RATE = {"count": 2, "per": "1h", "burst": 2}


def of(core: Core, kind: str, scope: str = "cluster") -> LimitBudget:
    (found,) = [b for b in budgets(core.control, core.now) if (b.kind, b.scope) == (kind, scope)]
    return found


def figures(budget: LimitBudget) -> tuple[int, int, int]:
    return budget.used, budget.limit, budget.room


def test_each_part_of_a_limit_is_a_budget_of_its_own() -> None:
    limit = {"scope": "Cluster", "maxConcurrent": "20%", "minHealthy": "50%", "rate": RATE}
    core = Core(a_policy(limits=[limit]))
    core.fleet(10)
    core.fail("n0", "n1")
    assert core.ask(an_ask("n0")).allowed
    assert figures(of(core, "maxConcurrent")) == (1, 2, 1)
    assert figures(of(core, "minHealthy")) == (8, 5, 3)
    assert figures(of(core, "rate")) == (1, 2, 1)
    core.step(hours=3)
    assert figures(of(core, "rate")) == (0, 2, 2)


def test_a_label_has_a_budget_for_each_value_and_others_have_none() -> None:
    core = Core(a_policy(limits=[{"scope": "Label", "label": ZONE, "maxConcurrent": 1}]))
    core.fleet(6, {ZONE: "a"}, "a")
    core.fleet(6, {ZONE: "b"}, "b")
    core.fleet(6, None, "c")
    assert core.ask(an_ask("a0")).allowed
    found = budgets(core.control, core.now)
    assert [(b.scope, b.used, b.room) for b in found] == [(f"{ZONE}=a", 1, 0), (f"{ZONE}=b", 0, 1)]
    assert {b.label for b in found} == {ZONE}


def test_classes_and_operations_of_a_limit_are_regarded() -> None:
    limits = [
        {"scope": "Cluster", "maxConcurrent": 5},
        {"scope": "Cluster", "classes": ["Host"], "maxConcurrent": 5},
    ]
    core = Core(a_policy(limits=limits), a_policy("z", operations=["Rollout"], limits=limits[:1]))
    core.fleet(20)
    assert core.ask(an_ask("n0", Disruption.HOST)).allowed
    assert [b.used for b in budgets(core.control, core.now)] == [0, 1, 0]


def test_a_small_pool_shows_one_at_a_time_and_all_others_healthy() -> None:
    core = Core(a_policy(limits=[{"scope": "Cluster", "maxConcurrent": "50%"}]))
    core.fleet(4)
    assert figures(of(core, "maxConcurrent")) == (0, 1, 1)
    assert figures(of(core, "minHealthy")) == (4, 3, 1)


def test_without_policies_the_built_in_default_is_shown() -> None:
    core = Core()
    core.fleet(100)
    found = budgets(core.control, core.now)
    assert {b.policy for b in found} == {"built-in default"}
    assert of(core, "minHealthy").limit == 80


counts = st.integers(0, 6)
shares = counts | counts.map(lambda n: f"{n * 10}%")


@settings(deadline=None)
@given(
    most=shares,
    healthy=shares,
    nodes=st.integers(1, 14),
    failed=st.integers(0, 6),
    asked=st.integers(0, 6),
    hours=st.sampled_from([0, 1]),
)
@pytest.mark.parametrize("part", ["maxConcurrent", "minHealthy", "rate"])
def test_figures_are_those_of_the_refusal_of_a_node_that_failed(
    part: str, most: str | int, healthy: str | int, nodes: int, failed: int, asked: int, hours: int
) -> None:
    """The asker is unhealthy by itself, so that it takes none of the healthy away."""
    limit = {"maxConcurrent": most, "minHealthy": healthy, "rate": RATE}
    never = {"trip": {"minNodes": 1000}}
    core = Core(a_policy(limits=[{"scope": "Cluster", part: limit[part]}], breaker=never))
    core.fleet(nodes)
    for number in range(min(asked, nodes)):
        core.ask(an_ask(f"n{number}"))
    core.step(hours=hours)
    core.fail(*(f"n{number}" for number in range(min(failed, nodes))))
    core.nodes(a_node("asker", ready=False, since=T0 - timedelta(minutes=1)))
    shown = {b.kind: b for b in budgets(core.control, core.now)}
    verdict = core.judge(an_ask("asker"))
    kinds = {
        Reason.CONCURRENCY_LIMIT: "maxConcurrent",
        Reason.MIN_HEALTHY: "minHealthy",
        Reason.RATE_LIMIT: "rate",
    }
    if verdict.allowed:
        assert all(budget.room > 0 for budget in shown.values() if budget.kind != "minHealthy")
        return
    budget = shown[kinds[verdict.reason]]
    assert (budget.used, budget.limit) == (verdict.used, verdict.limit)
    if verdict.reason is not Reason.MIN_HEALTHY:
        assert budget.room == 0
