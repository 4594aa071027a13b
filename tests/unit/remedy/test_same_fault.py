"""On how many nodes a fault is: counted while nodes are judged, without storms."""

from typing import Any

import pytest
from support.remedy_facts import RACK, ZONE, Facts

from rules.truth import Truth

SICK: dict[str, Any] = {"condition": {"type": "Sick", "status": "True"}}


def many(scope: str, above: int) -> dict[str, Any]:
    return {"all": [SICK, {"fact": {"name": f"{scope}.sameFault", "above": above}}]}


def a_fleet(sick: int, well: int = 0, labels: dict[str, str] | None = None) -> Facts:
    world = Facts()
    for i in range(sick + well):
        world.node(f"n{i:04}", labels=labels or {ZONE: "z1"}, Sick=str(i < sick))
    return world


def test_counts_the_nodes_of_a_group_on_which_all_other_leaves_hold() -> None:
    world = a_fleet(sick=4, well=3)
    world.node("elsewhere", labels={ZONE: "z2"}, Sick="True")
    world.load(storm={"when": many("zone", 3)})
    world.settle()
    assert world.facts("n0000").same_fault == {"storm@1": {"zone": 4}}
    assert world.evidence("n0000", "storm") is Truth.TRUE
    assert world.facts("elsewhere").same_fault == {"storm@1": {"zone": 1}}
    assert world.evidence("elsewhere", "storm") is Truth.FALSE
    assert world.evidence("n0006", "storm") is Truth.FALSE, "it is not sick itself"


def test_a_count_is_unknown_until_every_node_was_judged_once() -> None:
    world = a_fleet(sick=3)
    world.load(alone={"when": {"all": [SICK, {"fact": {"name": "zone.sameFault", "below": 2}}]}})
    assert world.look("n0000") == set()
    assert world.evidence("n0000", "alone") is Truth.UNKNOWN
    world.look("n0001")
    assert world.look("n0002") == {"n0000", "n0001", "n0002"}, "now it is known to all of them"
    assert world.evidence("n0000", "alone") is Truth.FALSE


def test_a_node_that_is_deleted_is_not_waited_for_and_does_not_count() -> None:
    world = a_fleet(sick=4)
    world.load(storm={"when": many("zone", 3)})
    for name in ("n0000", "n0001", "n0002"):
        world.look(name)
    assert world.gone("n0003") == {"n0000", "n0001", "n0002"}
    assert world.facts("n0000").same_fault == {"storm@1": {"zone": 3}}


def test_who_leaves_the_group_takes_its_fault_along() -> None:
    world = a_fleet(sick=4)
    world.load(storm={"when": many("zone", 3)})
    world.settle()
    world.node("n0000", labels={ZONE: "z2"}, Sick="True")
    assert world.look("n0000") == {"n0001", "n0002", "n0003"}
    assert world.evidence("n0001", "storm") is Truth.FALSE


def test_only_a_count_that_passes_a_bound_wakes_and_only_those_with_the_fault() -> None:
    world = a_fleet(sick=0, well=6)
    world.load(storm={"when": many("zone", 3)})
    world.settle()
    woken = []
    for i in range(6):
        world.node(f"n{i:04}", labels={ZONE: "z1"}, Sick="True")
        woken.append(world.look(f"n{i:04}"))
    assert woken[:3] == [set()] * 3
    assert woken[3] == {f"n{i:04}" for i in range(4)}
    assert woken[4:] == [set()] * 2


def test_500_nodes_that_fail_at_once_are_judged_a_few_times_each() -> None:
    world = a_fleet(sick=0, well=500)
    world.load(storm={"when": many("zone", 3)}, half={"when": many("cluster", 250)})
    world.settle()
    world.looks.clear()
    for i in range(500):
        world.node(f"n{i:04}", labels={ZONE: "z1"}, Sick="True")
    world.settle()
    assert sum(world.looks.values()) <= 3 * 500
    assert world.evidence("n0499", "half") is Truth.TRUE


def test_a_node_whose_reports_are_stale_does_not_count_as_having_the_fault() -> None:
    world = a_fleet(sick=4)
    world.load(storm={"when": many("zone", 3)})
    world.settle()
    world.nodes.broken.add("n0003")
    assert world.match("n0003", "storm").others is Truth.UNKNOWN
    assert world.look("n0003") == {"n0000", "n0001", "n0002"}
    assert world.facts("n0000").same_fault == {"storm@1": {"zone": 3}}


@pytest.mark.parametrize(
    ("scope", "parts"),
    [
        ("zone", {"labels": {ZONE: "z1"}}),
        ("rack", {"labels": {RACK: "r7"}}),
        ("pool", {"labels": {"kubenode.io/pool": "gpu"}}),
        ("kernel", {"status": {"nodeInfo": {"kernelVersion": "6.12.0"}}}),
        ("image", {"status": {"nodeInfo": {"osImage": "Flatcar"}}}),
        ("componentRevision", {"annotations": {"kubenode.io/component-revision": "1-90d2c7e1fa"}}),
        ("cluster", {}),
    ],
)
def test_every_kind_of_group(scope: str, parts: dict[str, Any]) -> None:
    world = Facts()
    for name in ("a", "b"):
        world.node(name, Sick="True", **parts)
    world.node("c", Sick="True")
    world.load(same={"when": many(scope, 1)})
    world.settle()
    assert world.facts("a").same_fault["same@1"] == {scope: 3 if scope == "cluster" else 2}
    known = world.facts("c").same_fault["same@1"]
    assert known == ({scope: 3} if scope == "cluster" else {}), "in no group: nothing is known"


def test_a_count_in_a_guard_is_counted_too() -> None:
    guard = {"fact": {"name": "zone.sameFault", "above": 1}}
    world = a_fleet(sick=1, well=1)
    world.load(guarded={"when": SICK, "unless": guard})
    world.settle()
    assert world.match("n0000", "guarded").guards is Truth.FALSE
    world.node("n0001", labels={ZONE: "z1"}, Sick="True")
    world.settle("n0001")
    assert world.match("n0000", "guarded").guards is Truth.TRUE
    assert world.facts("n0000").same_fault["guarded@1"] == {"zone": 2}


def test_a_rule_that_stays_loaded_keeps_its_counts_and_a_new_version_counts_anew() -> None:
    world = a_fleet(sick=4)
    world.load(storm={"when": many("zone", 3)})
    world.settle()
    world.load(storm={"when": many("zone", 3)}, other={"when": many("rack", 1)})
    assert world.facts("n0000").same_fault == {"storm@1": {"zone": 4}}
    world.load(storm={"when": many("zone", 2), "generation": 2})
    assert world.facts("n0000").same_fault == {}
    world.settle()
    assert world.facts("n0000").same_fault == {"storm@2": {"zone": 4}}


def test_nodes_of_the_same_groups_are_told_one_mapping_until_a_count_changes() -> None:
    world = a_fleet(sick=2, well=1)
    world.node("elsewhere", labels={ZONE: "z2"}, Sick="False")
    world.load(storm={"when": many("zone", 3)})
    world.settle()
    told = world.facts("n0000").same_fault
    assert world.facts("n0001").same_fault is told
    assert world.facts("n0002").same_fault is told
    assert world.facts("elsewhere").same_fault == {"storm@1": {"zone": 0}}
    world.node("n0002", labels={ZONE: "z1"}, Sick="True")
    world.settle("n0002")
    assert world.facts("n0000").same_fault == {"storm@1": {"zone": 3}}
    assert told == {"storm@1": {"zone": 2}}, "what was told stays what it was"
