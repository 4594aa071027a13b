"""How a rollout would go on: the real steps, over machines that always succeed."""

from dataclasses import replace
from datetime import timedelta

import pytest
from support.clock import T0
from support.rollout_model import Host, World, fleet, quick

from kubenode.api.rollouts import RolloutReason
from kubenode.api.v1alpha1.machinecomponentset import UpdateStrategy
from machine.componentset.forecast import Forecast, forecast
from machine.componentset.rollout import ConditionMessage, RolloutObservation, RolloutState


def foreseen(
    hosts: list[Host], strategy: UpdateStrategy, rollout: RolloutState | None = None, **seen: object
) -> Forecast:
    members = [host.member(timedelta(minutes=15), T0) for host in hosts]
    looked = RolloutObservation(members=members, target="B", now=T0)
    before = rollout or RolloutState(current="A", update="A")
    return forecast(before, strategy, replace(looked, **seen))  # type: ignore[arg-type]


def in_batches(found: Forecast) -> list[tuple[int, set[str]]]:
    return [(stage.index, set(stage.machines)) for stage in found.stages]


@pytest.mark.parametrize("down", [1, 20])
def test_it_foresees_what_the_rollout_does(down: int) -> None:
    strategy = quick(batches=[1, 3, 50], max_unavailable=down)
    found = foreseen(fleet(20), strategy)
    world = World.of(*fleet(20), strategy=strategy)
    went: dict[int, set[str]] = {}
    for _ in range(800):
        world.turn()
        for host in world.hosts.values():
            if host.wanted is not None and host.wanted.batch:
                went.setdefault(host.wanted.batch, set()).add(host.name)
        if world.rollout.phase == "Completed":
            break
    assert in_batches(found) == sorted(went.items())
    assert found.whole and found.phase == "Completed" and not found.stay


def test_now_is_told_as_it_is_and_the_rest_as_if_nothing_stood_in_the_way() -> None:
    problem = ConditionMessage(RolloutReason.VERSION_SKEW, "kubelet is newer")
    found = foreseen(fleet(3), quick(batches=[3]), problem=problem, paused=True, window=False)
    assert found.now.moves == () and found.now.degraded == problem
    assert found.now.paused is not None and found.now.paused.reason == RolloutReason.USER
    assert [len(stage.machines) for stage in found.stages] == [3]


def test_partition_and_silence_keep_machines_where_they_are() -> None:
    hosts = fleet(6)
    hosts[0].answers = False
    found = foreseen(hosts, quick(batches=[2], partition=2))
    assert sum(len(stage.machines) for stage in found.stages) == 4
    assert hosts[0].name in found.stay and len(found.stay) == 2
    assert "partition" in found.end


def test_a_repair_is_taken_to_end() -> None:
    hosts = fleet(2)
    hosts[0].held = "job-1"
    found = foreseen(hosts, quick(batches=[1]))
    assert found.phase == "Completed" and len(found.stages) == 2


def test_a_rejected_revision_is_seen_to_return() -> None:
    hosts = [Host.at("a", "B"), Host.at("b", "A")]
    found = foreseen(hosts, quick(), RolloutState(current="A", update="B", rejected="B"))
    assert [(s.index, s.revision, s.machines) for s in found.stages] == [(0, "A", ("a",))]
    assert found.phase == "Idle"


def test_an_endless_list_of_batches_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("machine.componentset.forecast.MOST_STEPS", 20)
    found = foreseen(fleet(30), quick(batches=[1]))
    assert not found.whole and 5 < len(found.stages) < 30


def test_nothing_to_do_is_nothing_foreseen() -> None:
    hosts = [Host.at("a", "B")]
    found = foreseen(hosts, quick(), RolloutState(current="B", update="B"))
    assert found.stages == () and found.stay == () and found.phase == "Completed"
