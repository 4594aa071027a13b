"""Decoding: only what we read, null for absent, never a guess."""

import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from kubenode.runtime.kube.objects import Event, Lease, Node, Pod, PodDisruptionBudget, structs
from kubenode.runtime.kube.store import ObjectStore

NODE = b"""{"apiVersion": "v1", "kind": "Node",
 "metadata": {"name": "n1", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"},
   "managedFields": [{"manager": "kubelet"}], "creationTimestamp": "2026-01-01T12:00:00Z"},
 "spec": {"providerID": "aws:///i-1", "unschedulable": true,
   "taints": [{"key": "k", "effect": "NoSchedule", "timeAdded": null}]},
 "status": {"images": [{"names": ["x"]}],
   "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady",
     "lastHeartbeatTime": "2026-01-01T12:00:00Z", "lastTransitionTime": null}],
   "nodeInfo": {"bootID": "b", "systemUUID": "s", "machineID": "m", "kernelVersion": "6.1"}}}"""


def test_a_node_keeps_what_we_read() -> None:
    node = structs(Node)(NODE)
    assert node.metadata.resource_version == "7"
    assert node.metadata.key == "n1"
    assert node.metadata.creation_timestamp == datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert (node.spec.provider_id, node.spec.unschedulable) == ("aws:///i-1", True)
    assert node.spec.taints[0].effect == "NoSchedule"
    assert node.status.conditions[0].last_heartbeat_time == datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert node.status.node_info.boot_id == "b"


def test_null_means_absent_everywhere() -> None:
    raw = b"""{"metadata": {"name": "n1", "labels": null, "finalizers": null}, "spec": null,
      "status": {"conditions": [{"type": "Ready", "status": null, "reason": null}, null],
        "nodeInfo": {"bootID": null}}}"""
    node = structs(Node)(raw)
    assert (node.metadata.labels, node.metadata.finalizers) == ({}, [])
    assert node.spec.taints == []
    assert [c.status for c in node.status.conditions] == ["Unknown"]
    assert node.status.node_info.boot_id == ""


@pytest.mark.parametrize(
    "raw",
    [
        b'{"spec": {}}',
        b'{"metadata": {"name": 7}}',
        b'{"metadata": {}, "status": {"conditions": "none"}}',
        b'{"metadata": {"creationTimestamp": "yesterday"}}',
        b"[]",
        b"{",
    ],
)
def test_what_does_not_fit_is_a_value_error(raw: bytes) -> None:
    with pytest.raises(ValueError):
        structs(Node)(raw)


def test_a_stamp_without_a_zone_is_read_as_utc() -> None:
    """It would be comparable with none of the others."""
    stamps = {
        "lastHeartbeatTime": "2026-01-10T10:00:00",
        "lastTransitionTime": "2026-01-10T09:00:00Z",
    }
    raw = {"metadata": {"name": "n"}, "status": {"conditions": [{"type": "A", **stamps}]}}
    [condition] = structs(Node)(json.dumps(raw).encode()).status.conditions
    assert condition.last_heartbeat_time is not None and condition.last_transition_time is not None
    assert condition.last_heartbeat_time - condition.last_transition_time == timedelta(hours=1)


def test_two_nodes_share_no_default() -> None:
    one, two = (structs(Node)(b'{"metadata": {}}') for _ in range(2))
    one.spec.taints.append(structs(Node)(NODE).spec.taints[0])
    one.metadata.labels["a"] = "b"
    assert (two.spec.taints, two.metadata.labels) == ([], {})


def test_other_kinds_read_their_fields() -> None:
    pod = structs(Pod)(
        b'{"metadata": {"namespace": "ns", "name": "p", "finalizers": []},'
        b'"spec": {"nodeName": "n1", "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w"}]}}'
    )
    assert pod.metadata.key == "ns/p"
    assert [v.empty_dir for v in pod.spec.volumes] == [{}, None]
    lease = structs(Lease)(
        b'{"metadata": {}, "spec": {"renewTime": "2026-01-01T12:00:00.123456Z"}}'
    )
    assert lease.spec.renew_time == datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)
    event = structs(Event)(
        b'{"metadata": {}, "involvedObject": {"kind": "Node"}, "series": {"count": 3}}'
    )
    assert event.series is not None
    assert (event.involved_object.kind, event.series.count) == ("Node", 3)
    pdb = structs(PodDisruptionBudget)(b'{"metadata": {}, "spec": {"minAvailable": "50%"}}')
    assert (pdb.spec.min_available, pdb.spec.selector) == ("50%", None)


def test_structs_stay_out_of_the_garbage_collector() -> None:
    kinds = [Node, Pod, Lease, Event, PodDisruptionBudget]
    assert all(kind.__struct_config__.gc is False for kind in kinds)
    assert msgspec.json.encode(structs(Node)(NODE).spec.taints[0]).startswith(b'{"key":"k"')


def a_node(version: int = 1, heard: str = "12:00:00", **annotations: str) -> Node:
    condition = {
        "lastHeartbeatTime": f"2026-01-01T{heard}Z",
        "lastTransitionTime": "2026-01-01T11:00:00Z",
    }
    found = {
        "metadata": {
            "name": "n1",
            "uid": "u-1",
            "resourceVersion": str(version),
            "labels": {"zone": "zone a"},
            "annotations": annotations,
            "creationTimestamp": "2026-01-01T10:00:00Z",
        },
        "spec": {"taints": [{"key": "some.key", "value": "some value", "effect": "NoSchedule"}]},
        "status": {
            "conditions": [{"type": kind, **condition} for kind in ("Ready", "Disk is well")],
            "nodeInfo": {"bootID": "b"},
            "addresses": [{"type": "A type", "address": "n1"}],
        },
    }
    return structs(Node)(msgspec.json.encode(found))


def test_words_that_nodes_say_alike_are_one_object() -> None:
    one, other = a_node(), a_node()
    assert one.metadata.labels["zone"] is other.metadata.labels["zone"]
    for one_taint, other_taint in zip(one.spec.taints, other.spec.taints, strict=True):
        assert one_taint.key is other_taint.key
        assert one_taint.value is other_taint.value
    assert one.status.addresses[0].type is other.status.addresses[0].type
    assert one.status.conditions[1].type is other.status.conditions[1].type


def test_the_times_of_one_report_are_one_object() -> None:
    first, second = a_node().status.conditions
    assert first.last_heartbeat_time is second.last_heartbeat_time
    assert first.last_transition_time is second.last_transition_time


def test_a_new_version_shares_what_is_as_it_was_and_nothing_else() -> None:
    nodes = ObjectStore[Node]("nodes")
    old, new, expected = a_node(1), a_node(2, "12:00:10"), a_node(2, "12:00:10")
    nodes.put("n1", old)
    nodes.put("n1", new)
    assert nodes.cache["n1"] is new
    assert new == expected
    for name in ("uid", "labels", "annotations", "creation_timestamp"):
        assert getattr(new.metadata, name) is getattr(old.metadata, name)
    assert new.spec is old.spec
    assert new.status.node_info is old.status.node_info
    assert new.status.addresses is old.status.addresses
    before, after = old.status.conditions[0], new.status.conditions[0]
    assert after.last_transition_time is before.last_transition_time


def test_a_changed_part_is_the_new_one() -> None:
    nodes = ObjectStore[Node]("nodes")
    nodes.put("n1", a_node(1, key="old"))
    nodes.put("n1", a_node(2, "12:00:10", key="new"))
    assert nodes.cache["n1"] == a_node(2, "12:00:10", key="new")


@pytest.mark.parametrize("field", ["name", "unread"])
def test_an_object_of_any_depth_is_read_or_refused(field: str) -> None:
    for depth in (100, 800, 2_000, 20_000):
        value = "[" * depth + "]" * depth
        with suppress(msgspec.ValidationError):
            structs(Node)(f'{{"metadata": {{"{field}": {value}}}}}'.encode())
