"""What a set sees of its machines while something is being written to them."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Generic, TypeVar

import pytest

from kubenode.api.v1alpha1 import Machine, MachineComponentSet
from kubenode.api.v1alpha1.machinework import DesiredState
from kubenode.runtime.kube.objects import Node
from machine.bootstrap.agentready import Lifesign
from machine.componentset.board import Assignments
from machine.componentset.facts import SetView
from machine.componentset.member import MemberState
from machine.componentset.observer import SLICE, Looker

T = TypeVar("T")
R = "1-90d2c7e1fa"


@dataclass
class Kept(Generic[T]):
    cache: dict[str, T] = field(default_factory=dict)

    def get(self, key: str) -> T | None:
        return self.cache.get(key)


class AllLive:
    def now(self) -> Callable[[str], Lifesign]:
        return lambda name: Lifesign.FRESH


@dataclass
class Fleet:
    machines: Kept[Machine]
    nodes: Kept[Node] = field(default_factory=Kept)
    component_sets: Kept[MachineComponentSet] = field(default_factory=Kept)
    lifesigns: AllLive = field(default_factory=AllLive)

    def find_open_job(self, node: str) -> str:
        return ""


def undone(name: str = "m1") -> Machine:
    """Its agent has taken the component back."""
    both = {"name": "c", "revision": R, "attempt": 2, "configHash": R}
    return Machine.model_validate(
        {
            "metadata": {"name": name, "uid": f"u-{name}", "labels": {"a": "b"}},
            "spec": {
                "addresses": ["10.0.0.1"],
                "node": "None",
                "components": [{**both, "component": "c-1", "set": "s"}],
            },
            "status": {
                "host": {"bootID": "b", "os": "debian-12", "kernel": "6", "arch": "amd64"},
                "components": [{**both, "state": "RolledBack"}],
            },
        }
    )


def a_looker(board: Assignments, machines: Mapping[str, Machine]) -> Looker:
    spec = {"selector": {"matchLabels": {"a": "b"}}, "component": "c-1"}
    set_ = MachineComponentSet.model_validate({"metadata": {"name": "s"}, "spec": spec})
    view = SetView(
        set="s",
        family="c",
        strategy=set_.spec.update_strategy,
        desired=DesiredState.RUNNING,
        checks={},
        reboot=timedelta(minutes=10),
    )
    return Looker(Fleet(Kept({**machines})), board, set_, view, None, None, ())


def a_look(board: Assignments) -> MemberState:
    (member,) = a_looker(board, {"m1": undone()}).take_snapshot().members
    return member.standing


@pytest.mark.exhaustive
async def test_a_first_look_at_many_leaves_the_loop_to_others_and_sees_what_changed_meanwhile() -> (
    None
):
    machines = {f"m{n}": undone(f"m{n}") for n in range(4 * SLICE)}
    looker = a_looker(Assignments(), machines)
    cache = looker.ground.machines.cache
    assert isinstance(cache, dict)
    turns, prepared = 0, False

    async def others() -> None:
        nonlocal turns
        while not prepared:
            turns += 1
            if turns == 2:
                del cache["m0"]
                changed = undone("m1")
                del changed.metadata.labels["a"]
                changed.metadata.resource_version = "2"
                cache["m1"] = changed
                cache["new"] = undone("new")
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        group.create_task(others())
        await looker.prepare()
        prepared = True
    assert turns >= 4
    seen = {member.name for member in looker.take_snapshot().members}
    assert seen == {*machines, "new"} - {"m0", "m1"}
    assert set(looker.known) == set(cache)


def test_what_is_being_written_is_under_way_though_the_set_wants_nothing_more() -> None:
    """A look in the middle of the write finds it under way and wants nothing more; the next, still
    in its middle, took the attempt before it for another failure, and stopped the set anew.
    """
    board = Assignments()
    assert a_look(board) is MemberState.FAILED
    board.writing["m1"] = frozenset({"s"})
    assert a_look(board) is MemberState.PENDING
    board.writing["m1"] = frozenset({"another"})
    assert a_look(board) is MemberState.FAILED
