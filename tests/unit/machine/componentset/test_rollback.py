"""A job takes the component of one machine back: what its set does about it."""

import pytest
from support.rollout_model import Host, World, fleet, quick

from kubenode.api.rollouts import RolloutReason
from kubenode.api.v1alpha1 import Machine
from kubenode.runtime.components.rollback import PREFIX, Rollback
from machine.componentset.carrier import find_obsolete_rollbacks
from machine.componentset.facts import MachineSurroundings, SetView, member_of


def repaired(world: World, name: str, revisions: tuple[str, str]) -> Host:
    host = world.hosts[name]
    host.held, host.back = "rj-1", revisions
    return host


def updated(world: World) -> str:
    """The first machine that runs the new revision."""
    world.run(50, lambda w: bool(w.on("B")))
    return world.on("B")[0]


def test_machine_goes_back_while_its_job_holds_it_and_the_batch_counts_it_as_failed() -> None:
    world = World.of(*fleet(10), strategy=quick(batches=[1]))
    host = repaired(world, updated(world), ("B", "A"))
    world.run(20)
    assert host.installed == "A" and host.history == ["B", "A"]
    assert world.plan.paused is not None and world.plan.paused.reason == RolloutReason.AUTO_PAUSED
    assert host.name in world.plan.paused.message
    assert world.assigned("B") == [], "no other machine is given it"


def test_rollout_that_a_person_lets_go_on_leaves_the_machine_where_it_is() -> None:
    world = World.of(*fleet(6))
    host = repaired(world, updated(world), ("B", "A"))
    world.run(20)
    host.held = ""
    world.paused = True
    world.run(2)
    world.paused = False
    world.to_phase("Completed")
    world.run(50)
    assert host.installed == "A" and len(world.on("B")) == 5
    assert host.history == ["B", "A"] and world.rollout.phase == "Completed"


def test_after_a_rollout_one_machine_goes_back_and_stays_there() -> None:
    world = World.of(*fleet(4))
    world.to_phase("Completed")
    host = repaired(world, "m01", ("B", "A"))
    world.run(10)
    host.held = ""
    world.run(50)
    assert host.installed == "A" and len(world.on("B")) == 3
    assert world.rollout.phase == "Completed" and world.plan.moves == ()


def test_next_revision_reaches_it_as_any_other() -> None:
    world = World.of(*fleet(4))
    world.to_phase("Completed")
    host = repaired(world, "m01", ("B", "A"))
    world.run(10)
    host.held = ""
    world.target = "C"
    world.run(400)
    assert len(world.on("C")) == 4 and world.rollout.phase == "Completed"


@pytest.mark.parametrize(
    ("hinders", "goes"),
    [("paused", True), ("window", True), ("frozen", False), ("meltdown", False)],
)
def test_only_a_freeze_or_a_meltdown_keeps_it(hinders: str, goes: bool) -> None:
    world = World.of(*fleet(4))
    world.to_phase("Completed")
    host = repaired(world, "m01", ("B", "A"))
    given = {"paused": True, "frozen": True, "meltdown": "many fail", "window": lambda now: False}
    setattr(world, hinders, given[hinders])
    world.run(10)
    assert (host.installed == "A") is goes


def test_nothing_begins_once_the_job_is_over() -> None:
    world = World.of(*fleet(4))
    world.to_phase("Completed")
    host = repaired(world, "m01", ("B", "A"))
    host.held = ""
    world.run(20)
    assert host.installed == "B" and world.plan.moves == ()


def test_rolled_back_set_ends_with_all_at_the_revision_before() -> None:
    world = World.of(*fleet(6), strategy=quick(batches=[2], failure_policy="Rollback"))
    host = repaired(world, updated(world), ("B", "A"))
    world.run(10)
    host.held = ""
    world.run(200)
    assert len(world.on("A")) == 6 and world.rollout.rejected == "B"


OLD, NEW = "1-000000000a", "1-000000000b"
WISH = Rollback(job="rj-1", permit="p", up_to="Restart", from_=NEW, to=OLD)


def a_machine(revision: str) -> Machine:
    entry = {"name": "c", "component": "c-1", "set": "s", "revision": revision, "configHash": OLD}
    return Machine.model_validate(
        {
            "apiVersion": "kubenode.io/v1alpha1",
            "kind": "Machine",
            "metadata": {"name": "m1", "annotations": {PREFIX + "c": WISH.text, "other": "x"}},
            "spec": {"addresses": ["10.0.0.1"], "components": [entry]},
        }
    )


@pytest.mark.parametrize(
    ("revision", "held", "said"),
    [
        (NEW, "rj-1", (OLD, "", True)),
        (NEW, "rj-2", ("", "", False)),
        (NEW, "", ("", "", False)),
        (OLD, "rj-1", ("", NEW, True)),
        (OLD, "", ("", NEW, False)),
    ],
)
def test_wish_counts_while_its_own_job_is_open(
    revision: str, held: str, said: tuple[str, str, bool]
) -> None:
    view = SetView("s", "c", quick())
    member = member_of(
        a_machine(revision), MachineSurroundings(None, answers=True, open_job=held), view
    )
    assert (member.back, member.rolled_back_from, member.repaired) == said


def test_wish_is_taken_off_with_the_first_other_revision() -> None:
    machine = a_machine(OLD)
    (entry,) = machine.spec.components
    assert find_obsolete_rollbacks(machine, [entry]) == []
    assert find_obsolete_rollbacks(machine, [entry.model_copy(update={"revision": NEW})]) == []
    other = entry.model_copy(update={"revision": "1-000000000c"})
    assert (
        find_obsolete_rollbacks(machine, [other])
        == find_obsolete_rollbacks(machine, [])
        == [PREFIX + "c"]
    )
