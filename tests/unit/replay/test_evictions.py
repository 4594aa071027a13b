"""Pods that may not leave: the job waits, says for whom, and deletes none that nobody gave up."""

from typing import Any

import pytest
from support.replay_world import a_rule, a_world, at, feed, sick

from kubenode.api.v1alpha1 import JobPhase

MINUTE = 60


def isolating(**migrate: Any) -> dict[str, Any]:
    steps = [{"cordon": {}}, {"migrate": {"timeout": "10m", **migrate}}]
    verify = {"for": "1m", "timeout": "5m", "settle": "1m"}
    return {"ladder": [{"name": "isolate", "steps": steps, "verify": verify}], "onGiveUp": "Hold"}


def test_a_budget_that_allows_nothing_holds_the_job_and_is_named() -> None:
    world = a_world(a_rule(**isolating()))
    feed(world, 0, "a", evictions={"budget": "shop/db"})
    sick(world, 0)
    at(world, 5 * MINUTE)
    (job,) = world.jobs
    assert job.hold is not None
    assert (job.hold.reason, job.hold.scope) == ("PDBBlocked", "shop/db")
    assert not job.deleted


def test_pods_leave_once_the_budget_allows_it() -> None:
    world = a_world(a_rule(**isolating()))
    feed(world, 0, "a", evictions={"budget": "shop/db"})
    feed(world, 5 * MINUTE, "a", evictions={})
    sick(world, 0)
    at(world, 10 * MINUTE)
    (job,) = world.jobs
    assert [step.state for step in job.steps] == ["Done", "Done"]


@pytest.mark.exhaustive
def test_a_drain_that_is_out_of_time_goes_on_later_and_deletes_nothing() -> None:
    world = a_world(a_rule(**isolating(onTimeout="Delete")))
    feed(world, 0, "a", evictions={"deniedBy": "a webhook"})
    sick(world, 0)
    at(world, 60 * MINUTE)
    (job,) = world.jobs
    assert job.open
    assert not job.deleted, "nobody approved it"
    drains = [step.state for step in job.steps if step.name == "migrate"]
    assert drains[0] == "Failed"
    assert len(drains) > 1, "its slot was free for others meanwhile"


def test_with_a_persons_approval_the_rest_is_deleted_at_the_end_of_the_time() -> None:
    rule = a_rule(mode="Approve", **isolating(onTimeout="Delete"))
    world = a_world(rule)
    feed(world, 0, "a", evictions={"budget": "shop/db"})
    sick(world, 0)
    feed(world, MINUTE, "a", person="approve")
    at(world, 30 * MINUTE)
    (job,) = world.jobs
    assert job.deleted
    assert job.phase is not JobPhase.RUNNING


@pytest.mark.parametrize("seconds", range(25, 125, 5))
@pytest.mark.exhaustive
def test_a_node_that_is_deleted_at_any_moment_of_its_drain_ends_its_job(seconds: int) -> None:
    world = a_world()
    sick(world, 0)
    feed(world, 1, "a", pods=30)
    feed(world, seconds, "a", lifecycle="deleted")
    at(world, 3600)
    assert not any(job.open for job in world.jobs), [job.phase for job in world.jobs]


@pytest.mark.parametrize("seconds", [45, 60, 90])
def test_a_node_that_is_deleted_while_evictions_are_refused_ends_its_job(seconds: int) -> None:
    world = a_world()
    feed(world, 0, "a", evictions={"budget": "shop/db"})
    sick(world, 0)
    feed(world, seconds, "a", lifecycle="deleted")
    at(world, 3600)
    assert not any(job.open for job in world.jobs), [job.phase for job in world.jobs]
