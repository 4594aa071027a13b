"""Decoding: only what we read, null for absent, never a guess."""

from datetime import UTC, datetime

import msgspec
import pytest

from kubenode.runtime.kube.objects import Event, Lease, Node, Pod, PodDisruptionBudget, structs

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
