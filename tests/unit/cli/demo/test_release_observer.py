"""The observer of releases counts what is wrong, and nothing else."""

from typing import Any

import pytest

from kubenode.api.v1alpha1 import NodeRemedier
from simulation.demo.release.observer import ReleaseObserver
from simulation.demo.release.payload import BAD, GOOD, MEMBERS, OLD, build_rule
from simulation.demo.release.report import describe, summarize


def rule(version: str, *, compiled: bool = True, observed: int = 2) -> NodeRemedier:
    raw: dict[str, Any] = build_rule(version)
    raw["metadata"]["generation"] = 2
    condition = {
        "type": "Compiled",
        "status": "True" if compiled else "False",
        "reason": "Compiled",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    raw["status"] = {"observedGeneration": observed, "conditions": [condition]}
    return NodeRemedier.model_validate(raw)


@pytest.fixture
def observer() -> ReleaseObserver:
    observer = ReleaseObserver(tuple(MEMBERS), (GOOD, BAD))
    for stage in MEMBERS:
        observer.observe(stage, rule(OLD), 0)
    return observer


def test_stages_in_order_are_no_violation(observer: ReleaseObserver) -> None:
    for at, stage in enumerate(MEMBERS):
        observer.observe(stage, rule(GOOD, compiled=False), at + 0.1)
        observer.observe(stage, rule(GOOD), at + 0.5)
    result = summarize(observer, {}, 3)
    assert (result["stagesInOrder"], result["violations"]) == (True, 0)


@pytest.mark.parametrize(
    "unproven", [rule(GOOD, compiled=False), rule(GOOD, observed=1)], ids=["refused", "unobserved"]
)
def test_stage_before_the_earlier_one_is_proven_is_a_violation(
    observer: ReleaseObserver, unproven: NodeRemedier
) -> None:
    observer.observe("test", unproven, 1)
    observer.observe("staging", rule(GOOD), 2)
    observer.observe("test", rule(GOOD), 3)
    result = summarize(observer, {}, 4)
    assert result["violationsSeen"] == ["2.0 s: version 2 in stage staging before test proved it"]
    assert "  2.0 s: version 2 in stage staging before test proved it" in describe(result)


def test_stage_that_is_left_out_is_a_violation(observer: ReleaseObserver) -> None:
    observer.observe("production", rule(GOOD), 1)
    result = summarize(observer, {}, 2)
    assert (result["stagesInOrder"], result["violations"]) == (False, 2)


def test_bad_version_stops_where_it_appeared_last_and_is_restored_by_equal_content(
    observer: ReleaseObserver,
) -> None:
    observer.observe("test", rule(GOOD), 1)
    observer.observe("test", rule(BAD, compiled=False), 2)
    assert not summarize(observer, {}, 3)["rolledBack"]
    observer.observe("test", rule(OLD), 3)
    assert not summarize(observer, {}, 4)["rolledBack"], "version 2 stood there before"
    observer.observe("test", rule(GOOD), 4)
    result = summarize(observer, {}, 5)
    assert (result["stoppedAt"], result["rolledBack"], result["violations"]) == ("test", True, 0)
    assert "The bad release stopped at test, which has again what it had before." in describe(
        result
    )


def test_deleted_rule_is_not_restored(observer: ReleaseObserver) -> None:
    observer.observe("test", rule(BAD, compiled=False), 1)
    observer.observe("test", None, 2)
    assert not observer.is_restored(BAD)
