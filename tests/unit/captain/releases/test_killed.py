"""Captain dies at each of its writes, before or after the write takes effect, and goes on."""

import pytest
from support.release_world import (
    DeathError,
    Lifetime,
    MemberDouble,
    ReleaseWorldDouble,
    make_component,
    make_pipeline,
    make_release,
    make_set,
    make_stage,
)

from kubenode.api.v1alpha1.release import ReleasePhase, ReleaseState

ROUNDS = 30


def make_world() -> ReleaseWorldDouble:
    members = [
        MemberDouble(name, name.partition("-")[0])
        for name in ("test-1", "production-1", "production-2")
    ]
    pipeline = make_pipeline(make_stage("test"), make_stage("production", maxConcurrency=2))
    world = ReleaseWorldDouble(pipeline, members)
    for member in members:
        member.put(make_set("containerd-1.7"))
    world.store.put(make_release(make_component(), make_set("containerd-2.1.4")))
    return world


def run_through(world: ReleaseWorldDouble, *lives: Lifetime) -> ReleasePhase | None:
    """Run with a process for each lifetime, and with an immortal one at the end."""
    for life in (*lives, Lifetime()):
        world.restart(life)
        try:
            world.run(rounds=ROUNDS)
        except DeathError:
            continue
    return world.store.get().status.phase


def count_writes() -> tuple[int, int]:
    """Count the writes of a release, and those of its rollback."""
    world, life = make_world(), Lifetime()
    world.restart(life)
    world.run(rounds=ROUNDS)
    forward = life.writes
    world.store.set_spec(state=ReleaseState.ROLLBACK)
    world.run(rounds=ROUNDS)
    return forward, life.writes - forward


FORWARD, BACK = count_writes()


def test_every_write_is_counted() -> None:
    assert FORWARD >= 3 * 2 + 5
    assert BACK >= 3 * 2 + 3


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("forward", range(FORWARD + 1))
def test_killed_release_succeeds_and_its_rollback_restores(forward: int, before: bool) -> None:
    world = make_world()
    original = world.specs
    assert run_through(world, Lifetime(forward, before)) is ReleasePhase.SUCCEEDED
    assert all(len(member.objects) == 2 for member in world.members.values())
    world.store.set_spec(state=ReleaseState.ROLLBACK)
    assert run_through(world) is ReleasePhase.ROLLED_BACK
    assert world.specs == original


@pytest.mark.exhaustive
@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("forward", range(1, FORWARD + 1))
def test_release_killed_twice_and_rolled_back_in_the_middle_restores(
    forward: int, before: bool
) -> None:
    for back in range(1, BACK + 1):
        world = make_world()
        original = world.specs
        world.restart(Lifetime(forward, before))
        with pytest.raises(DeathError):
            world.run(rounds=ROUNDS)
        world.store.set_spec(state=ReleaseState.ROLLBACK)
        assert run_through(world, Lifetime(back, before)) is ReleasePhase.ROLLED_BACK
        assert world.specs == original
