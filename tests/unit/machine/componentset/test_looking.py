"""What a set sees of its machines while something is being written to them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Generic, TypeVar

from kubenode.api.v1alpha1 import Machine, MachineComponentSet
from kubenode.api.v1alpha1.machinework import DesiredState
from kubenode.runtime.kube.objects import Node
from machine.bootstrap.agentready import Lifesign
from machine.componentset.board import Board
from machine.componentset.facts import View
from machine.componentset.looking import Looker
from machine.componentset.member import Standing

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

    def held(self, node: str) -> str:
        return ""


def undone() -> Machine:
    """Its agent has taken the component back."""
    both = {"name": "c", "revision": R, "attempt": 2, "configHash": R}
    return Machine.model_validate(
        {
            "metadata": {"name": "m1", "uid": "u1", "labels": {"a": "b"}},
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


def a_look(board: Board) -> Standing:
    spec = {"selector": {"matchLabels": {"a": "b"}}, "component": "c-1"}
    set_ = MachineComponentSet.model_validate({"metadata": {"name": "s"}, "spec": spec})
    view = View(
        set="s",
        family="c",
        strategy=set_.spec.update_strategy,
        desired=DesiredState.RUNNING,
        checks={},
        reboot=timedelta(minutes=10),
    )
    fleet = Fleet(Kept({"m1": undone()}))
    (member,) = Looker(fleet, board, set_, view, None, None, ()).look().members
    return member.standing


def test_what_is_being_written_is_under_way_though_the_set_wants_nothing_more() -> None:
    """A look in the middle of the write finds it under way and wants nothing more; the next, still
    in its middle, took the attempt before it for another failure, and stopped the set anew.
    """
    board = Board()
    assert a_look(board) is Standing.FAILED
    board.writing["m1"] = frozenset({"s"})
    assert a_look(board) is Standing.PENDING
    board.writing["m1"] = frozenset({"another"})
    assert a_look(board) is Standing.FAILED
