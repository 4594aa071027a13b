"""Which instances are orphans, and how long nothing of them was in the cluster."""

from datetime import datetime, timedelta

import pytest
from support.clock import T0

from kubenode.providers.instances import MACHINE_TAG, Instance, InstanceState, client_token
from kubenode.runtime.kube.objects import KubeObjectMeta, Node, NodeAddress, NodeSpec, NodeStatus
from machine.orphans.model import OrphanRecord
from machine.orphans.presence import Presence, instance_id
from machine.orphans.step import Claims, candidates, step

OLD = T0 - timedelta(hours=1)
NOBODY = Claims(set(), set())


def an_instance(
    name: str,
    created: datetime | None = OLD,
    token: str | None = None,
    provider_id: str = "",
    addresses: tuple[str, ...] = (),
) -> Instance:
    asked_with = client_token(f"uid-{name}", 1) if token is None else token
    return Instance(
        provider_id or f"x://{name}",
        asked_with,
        "c",
        InstanceState.RUNNING,
        addresses=addresses,
        created_at=created,
        tags={MACHINE_TAG: name},
    )


def names(found: list[Instance]) -> list[str]:
    return [one.provider_id for one in found]


def test_an_orphan_is_an_old_instance_that_no_machine_claims() -> None:
    one = an_instance("o")
    assert names(candidates([one], NOBODY, T0)) == ["x://o"]
    assert names(candidates([one], Claims({"uid-o"}, set()), T0)) == []
    assert names(candidates([one], Claims(set(), {"x://o"}), T0)) == []


@pytest.mark.parametrize(
    "spared",
    [
        an_instance("young", T0 - timedelta(minutes=29)),
        an_instance("ageless", None),
        an_instance("foreign", token=""),
        an_instance("foreign", token="made by hand"),
    ],
)
def test_what_is_fresh_or_not_in_our_form_is_no_orphan(spared: Instance) -> None:
    assert candidates([spared], NOBODY, T0) == []


def recorded(
    known: OrphanRecord | None, sighting: str = "", waited: float = 900.0, now: datetime = T0
) -> OrphanRecord:
    before = {} if known is None else {known.provider_id: known}
    [record] = step("p", [an_instance("o")], before, lambda one: sighting, waited, now)
    return record


def test_the_time_of_absence_is_consumed_look_by_look() -> None:
    first = recorded(None)
    assert (first.absent_seconds, first.found_at) == (0.0, T0)
    later = T0 + timedelta(days=3)  # what the wall clock says does not count
    second = recorded(first, now=later)
    assert (second.absent_seconds, second.found_at) == (900.0, T0)
    assert recorded(second, waited=0.0).absent_seconds == 900.0


def test_the_time_of_absence_begins_anew_when_something_of_it_is_there() -> None:
    waited = recorded(recorded(None))
    seen = recorded(waited, "Node n has its address")
    assert (seen.absent_seconds, seen.sighting) == (0.0, "Node n has its address")
    assert recorded(seen).sighting == ""


def a_node(name: str, provider_id: str = "", address: str = "") -> Node:
    addresses = [NodeAddress("InternalIP", address)] if address else []
    return Node(
        KubeObjectMeta(name=name),
        NodeSpec(provider_id=provider_id),
        NodeStatus([], addresses=addresses),
    )


@pytest.mark.parametrize(
    "node",
    [
        a_node("n", "aws:///eu-1a/i-0123456789abcdef0"),
        a_node("n", "aws:///eu-1b/i-0123456789abcdef0"),
        a_node("i-0123456789abcdef0"),
        a_node("n", address="10.1.2.3"),
        a_node("o"),
    ],
)
def test_a_node_is_taken_for_the_instance_s_when_any_sign_is_the_same(node: Node) -> None:
    provider_id = "aws:///eu-1a/i-0123456789abcdef0"
    instance = an_instance("o", provider_id=provider_id, addresses=("10.1.2.3",))
    assert Presence([a_node("other", "aws:///eu-1a/i-1", "10.9.9.9")]).of(instance) == ""
    assert "Node" in Presence([node]).of(instance)


@pytest.mark.parametrize(
    ("provider_id", "name"),
    [
        ("aws:///eu-west-1a/i-0123", "i-0123"),
        ("cn-hangzhou.i-bp1abc", "i-bp1abc"),
        ("alicloud://cn-hangzhou.i-bp1abc", "i-bp1abc"),
        ("gce://project/europe-west1-b/vm.1", "vm.1"),
    ],
)
def test_an_instance_id_is_the_last_part_of_the_provider_id(provider_id: str, name: str) -> None:
    assert instance_id(provider_id) == name
