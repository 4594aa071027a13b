"""Each kind of limit is declared once, by a handler that names its field in the policy."""

import pytest

from defender.dashboard.views.holds import HOLDS
from defender.decision.limits.handler import LimitHandler
from defender.decision.limits.table import BY_NAME, BY_REASON, DISPLAYED, LIMITS
from defender.decision.queue.queue import FREED_BY_HEALTH
from defender.decision.verdict import ORDER
from kubenode.api.v1alpha1 import Reason
from kubenode.api.v1alpha1.defenderpolicy import LIMIT_KINDS, LIMITS_SOMETHING, Limit, LimitScope
from kubenode.cli.defender_why import REMEDIES
from simulation.cases.predictions import STORM


def test_each_kind_of_limit_of_a_policy_has_one_handler() -> None:
    assert sorted(each.name for each in LIMITS) == sorted(LIMIT_KINDS.values())
    for name, written in LIMIT_KINDS.items():
        assert Limit.model_fields[name].alias == written


def test_people_see_each_kind_once() -> None:
    assert len(DISPLAYED) == len(LIMITS)
    assert set(BY_NAME) == {each.name for each in DISPLAYED}
    assert len({each.texts.heading for each in DISPLAYED}) == len(DISPLAYED)


def test_no_two_kinds_refuse_for_the_same_reason() -> None:
    assert len(BY_REASON) == len(LIMITS)


def test_reasons_of_a_verdict_keep_their_order_of_importance() -> None:
    names = [reason.value for reason in ORDER]
    places = [*map(names.index, ("DisplacedPods", "MinHealthy", "ConcurrencyLimit", "RateLimit"))]
    assert places == sorted(places)
    assert sorted(names) == sorted({reason.value for reason in Reason} - {"Granted"})


@pytest.mark.parametrize("handler", LIMITS, ids=lambda each: each.name)
def test_a_reason_has_its_texts(handler: LimitHandler) -> None:
    assert HOLDS[handler.reason.value] == handler.texts.hold
    assert REMEDIES[handler.reason] == handler.texts.remedy


@pytest.mark.parametrize("handler", LIMITS, ids=lambda each: each.name)
def test_terms_are_those_of_the_kind_alone(handler: LimitHandler) -> None:
    values = {
        "maxConcurrent": 3,
        "maxPerClient": 2,
        "minHealthy": "50%",
        "rate": {"count": 2, "per": "1h"},
    }
    for name, value in values.items():
        limit = Limit.model_validate({"scope": LimitScope.CLUSTER, name: value})
        terms = handler.terms(limit)
        assert bool(terms) == (name == handler.name)
        assert all(term.startswith(name) for term in terms)


def test_policy_that_limits_nothing_is_told_every_kind() -> None:
    for name in LIMIT_KINDS.values():
        assert f"has(self.{name})" in LIMITS_SOMETHING.rule
        assert name in LIMITS_SOMETHING.message


def test_health_of_a_node_and_a_storm_concern_no_number_of_permits() -> None:
    permits = {Reason.CONCURRENCY_LIMIT, Reason.RATE_LIMIT}
    for reasons in (set(FREED_BY_HEALTH), STORM):
        assert Reason.MIN_HEALTHY in reasons
        assert not permits & reasons
