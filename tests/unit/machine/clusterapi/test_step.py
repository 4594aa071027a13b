"""Machines of Cluster API become Machines of ours, never provisioned, and go when theirs go."""

from typing import Any

from kubenode.api.v1alpha1 import Machine
from machine.clusterapi.step import ADOPT, SOURCE, adopted, step

NODES = [f"node-{name}" for name in "abcdefghij"]


def theirs(name: str, **status: Any) -> dict[str, Any]:
    seen = {
        "nodeRef": {"name": f"node-{name}"},
        "addresses": [
            {"type": "InternalIP", "address": "10.0.0.7"},
            {"type": "Hostname", "address": f"node-{name}"},
        ],
    }
    labels = {ADOPT: "true", "pool": "online"}
    return {
        "metadata": {"name": name, "namespace": "fleet", "uid": f"uid-{name}", "labels": labels},
        "spec": {"providerID": f"x://{name}", "failureDomain": "zone-a"},
        "status": {**seen, **status},
    }


def ours(*names: str) -> dict[str, Machine]:
    bodies = [adopted(theirs(name)) for name in names]
    found = [Machine.model_validate(body) for body in bodies]
    return {machine.metadata.name: machine for machine in found}


def test_one_with_a_node_and_an_address_is_imported_as_it_is() -> None:
    plan = step([theirs("a")], {}, NODES, "")
    machine = Machine.from_user(plan.create[0])
    assert machine.metadata.name == "node-a" and machine.node_name == "node-a"
    assert machine.metadata.labels == {"pool": "online"}
    assert machine.metadata.annotations[SOURCE] == "fleet/a"
    spec = machine.spec
    assert (spec.origin, spec.class_ref, spec.provider_id) == ("Import", "", "x://a")
    assert (spec.addresses, spec.failure_domain) == (["10.0.0.7"], "zone-a")


def test_it_waits_for_node_and_address() -> None:
    states: tuple[dict[str, Any], ...] = ({"nodeRef": None}, {"addresses": []}, {"addresses": None})
    for lacking in states:
        assert adopted(theirs("a", **lacking)) is None


def test_what_is_there_is_not_made_again_and_follows_changes() -> None:
    assert step([theirs("a")], ours("a"), NODES, "") == step([], {}, NODES, "")
    moved = theirs("a", addresses=[{"address": "10.0.0.8"}])
    plan = step([moved], ours("a"), NODES, "")
    assert plan.change[0][1] == {"spec": {"addresses": ["10.0.0.8"]}} and not plan.create


def test_one_that_was_imported_by_hand_is_left_alone() -> None:
    by_hand = ours("a")
    by_hand["node-a"].metadata.annotations.clear()
    moved = theirs("a", addresses=[{"address": "10.0.0.8"}])
    assert step([moved], by_hand, NODES, "") == step([], {}, NODES, "")
    assert not step([], by_hand, NODES, "").release


def test_ours_is_released_when_theirs_is_gone() -> None:
    here = ours("a", "b")
    assert [m.metadata.name for m in step([theirs("b")], here, NODES, "").release] == ["node-a"]
    later = {**theirs("a"), "metadata": {**theirs("a")["metadata"], "uid": "uid-later"}}
    assert [m.metadata.name for m in step([later, theirs("b")], here, NODES, "").release] == [
        "node-a"
    ]


def test_invariant_13_an_empty_list_releases_none() -> None:
    plan = step([], ours(*"abcdefghij"), NODES, "")
    assert not plan.release and "10 of 10 adopted Machines" in plan.spared
    frozen = step([], ours("a"), NODES, "Leases stopped")
    assert not frozen.release and frozen.spared == "Leases stopped"
    nothing = step([], ours(*"abcdefghij"), [], "")
    assert not nothing.release and nothing.spared


def test_machines_whose_nodes_are_gone_too_are_released_together() -> None:
    here = ours(*"abcdefghij")
    plan = step([theirs(name) for name in "fghij"], here, [f"node-{n}" for n in "fghij"], "")
    assert [m.node_name for m in plan.release] == [f"node-{n}" for n in "abcde"]
    assert not plan.spared


def test_doubt_about_some_machines_keeps_none_whose_node_is_gone() -> None:
    plan = step([], ours(*"abcdefghij"), NODES[1:], "")
    assert [m.node_name for m in plan.release] == ["node-a"]
    assert "9 of 10 adopted Machines" in plan.spared
    frozen = step([], ours("a"), ["node-b"], "Leases stopped")
    assert not frozen.release and frozen.spared == "Leases stopped"
