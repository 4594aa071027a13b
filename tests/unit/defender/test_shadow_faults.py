"""Only a verdict on a dry run counts the faults that rules in DryRun report."""

from collections.abc import Mapping
from datetime import datetime, timedelta

import pytest
from support.defender_core import Core, a_policy, an_ask

from kubenode.api.v1alpha1 import Ask, Reason
from kubenode.api.v1alpha1.permit import Holder

TRIP = {"trip": {"unhealthyRatio": "50%", "minNodes": 3}}
LIMITS = [{"scope": "Cluster", "maxConcurrent": 9}]


class Shadows:
    """Implements ShadowSource over a dictionary."""

    def __init__(self, **since: datetime) -> None:
        self.since = dict(since)

    def faults(self, now: datetime) -> Mapping[str, datetime]:
        return self.since

    def note(self, node: str, now: datetime) -> None:
        self.since.setdefault(node, now)


def a_dry_run(node: str) -> Ask:
    holder = Holder(kind="NodeRecord", name=node, uid="u")
    return an_ask(node).model_copy(update={"dry_run": True, "holder": holder})


def a_core(**since: datetime) -> Core:
    core = Core(a_policy(limits=LIMITS, breaker=TRIP))
    core.fleet(6)
    core.control.breakers.shadows = Shadows(**since)
    return core


def test_dry_run_is_refused_when_its_faults_would_have_opened_the_breaker() -> None:
    core = a_core()
    hour_ago = core.now - timedelta(hours=1)
    core.control.breakers.shadows = Shadows(n1=hour_ago, n2=hour_ago)
    verdict = core.ask(a_dry_run("n3"))
    assert verdict.reason is Reason.BREAKER_OPEN
    assert "the breaker would be open: 3 of 6 nodes are unhealthy" in verdict.message


@pytest.mark.parametrize("shadows", [0, 1])
def test_dry_run_is_granted_when_too_few_nodes_have_a_fault(shadows: int) -> None:
    core = a_core()
    at = core.now - timedelta(hours=1)
    core.control.breakers.shadows = Shadows(**{f"n{i + 1}": at for i in range(shadows)})
    assert core.ask(a_dry_run("n3")).allowed


def test_faults_of_dry_runs_refuse_no_other_request_and_open_no_breaker() -> None:
    core = a_core()
    at = core.now - timedelta(hours=1)
    core.control.breakers.shadows = Shadows(**{f"n{i}": at for i in range(5)})
    assert core.ask(an_ask("n3")).allowed
    assert core.control.breakers.opened() == []
    preview = an_ask("n4").model_copy(update={"dry_run": True})
    assert core.ask(preview).allowed, "a preview for a person is no dry run of a rule"


def test_dry_runs_that_ask_at_once_count_each_other() -> None:
    core = a_core()
    answers = [core.ask(a_dry_run(name)).allowed for name in ("n1", "n2", "n3")]
    assert answers == [True, True, False]
