"""A storm over the production path: jobs wait, then ask anew on what is true then."""

from datetime import timedelta
from itertools import pairwise

import pytest
from support.defender_core import ZONE
from support.replay_world import a_rule, a_world, at, sick

from kubenode.api.v1alpha1 import JobPhase
from simulation.replay.world import World, heals

pytestmark = pytest.mark.integration
MINUTE = 60


def a_fleet() -> World:
    """Three zones of ten; a repair that is done helps."""
    world = a_world(a_rule(), nodes=(), heals=heals)
    for zone in "abc":
        for number in range(10):
            world.add_node(f"{zone}{number}", labels={ZONE: zone})
    return world


def test_after_a_storm_old_faults_are_judged_anew_and_never_replayed() -> None:
    world = a_fleet()
    zone = [f"a{number}" for number in range(10)]
    sick(world, 60, zone)
    at(world, 3 * MINUTE)
    jobs = {job.node: job for job in world.jobs}
    assert jobs.keys() == set(zone)
    for job in jobs.values():
        assert job.hold is not None and job.hold.reason == "BreakerOpen", job.hold
        assert job.hold.scope == f"{ZONE}=a"
        assert job.permit_at is None and not job.acts
    sick(world, 4 * MINUTE, zone[1:], on=False)
    at(world, 8 * MINUTE)  # the breaker is open still, and cancelling asks nobody
    assert {jobs[node].phase for node in zone[1:]} == {JobPhase.CANCELLED}
    at(world, 60 * MINUTE)
    for node in zone[1:]:
        assert jobs[node].phase is JobPhase.CANCELLED, jobs[node]
        assert not jobs[node].acts, "what was true in the storm was done after it"
    assert jobs["a0"].phase is JobPhase.SUCCEEDED
    assert jobs["a0"].permit_at is not None
    assert jobs["a0"].permit_at - world.start >= timedelta(minutes=10)


def test_meanwhile_the_other_zones_heal() -> None:
    world = a_fleet()
    sick(world, 60, [f"a{number}" for number in range(10)])
    sick(world, 5 * MINUTE, "b3")
    at(world, 30 * MINUTE)
    (job,) = world.jobs_of("b3")
    assert job.phase is JobPhase.SUCCEEDED
    assert not any(job.acts for job in world.jobs if job.node.startswith("a"))


def test_what_lasts_is_repaired_one_after_another_once_it_is_calm() -> None:
    """Three of thirty stay sick in a zone that half opens: few at once, and all in the end."""
    world = a_world(a_rule(), nodes=(), heals=heals)
    for number in range(30):
        world.add_node(f"a{number}", labels={ZONE: "a"})
    everybody = [f"a{number}" for number in range(30)]
    sick(world, 60, everybody)
    sick(world, 6 * MINUTE, everybody[3:], on=False)
    at(world, 16 * MINUTE)
    assert not any(job.acts for job in world.jobs)
    at(world, 3 * 60 * MINUTE)
    lasting = [world.jobs_of(node)[0] for node in everybody[:3]]
    assert all(job.phase is JobPhase.SUCCEEDED for job in lasting)
    times = sorted((job.permit_at, job.closed) for job in lasting if job.permit_at and job.closed)
    assert len(times) == 3
    assert all(nxt[0] >= this[1] for this, nxt in pairwise(times))


def test_f46_who_acts_when_it_opens_verifies_uncordons_and_gives_back() -> None:
    world = a_fleet()
    sick(world, 60, "a0")
    at(world, 2 * MINUTE)
    (job,) = world.jobs_of("a0")
    assert job.permit_at is not None and world.nodes["a0"].spec.unschedulable
    sick(world, 130, [f"a{number}" for number in range(1, 10)])
    at(world, 40 * MINUTE)
    others = [world.jobs_of(f"a{number}")[0] for number in range(1, 10)]
    assert {other.hold.reason for other in others if other.hold} == {"BreakerOpen"}
    assert job.phase is JobPhase.SUCCEEDED
    assert not world.nodes["a0"].spec.unschedulable
