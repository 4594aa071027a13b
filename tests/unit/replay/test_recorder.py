"""What a cluster's caches say becomes entries, and these make the same Nodes again."""

from datetime import datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.clock import T0

from kubenode.api.cordon import CORDONED_BY
from kubenode.api.v1alpha1 import HostEvent, HostProbe
from kubenode.runtime.hosttime import host_time
from kubenode.runtime.kube import objects
from kubenode.runtime.kube.objects import KubeObjectMeta, Node, NodeCondition, NodeInfo, NodeSpec
from simulation.replay.recorder import THIN, Recorder, take_snapshot
from simulation.replay.timeline import Entry, read_lines
from simulation.replay.world import World

SECOND = timedelta(seconds=1)
replace = msgspec.structs.replace


def condition(
    type_: str, status: str, at: datetime, heard: datetime | None = None
) -> NodeCondition:
    return NodeCondition(
        type_, status, "Because", "it is so", host_time(heard or at), host_time(at)
    )


def a_node(
    *conditions: NodeCondition, boot: str = "boot-1", uid: str = "u1", cordoned: bool = False,
    labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None,
    taints: dict[str, str] | None = None, kernel: str = "6.1",
) -> Node:  # fmt: skip
    meta = KubeObjectMeta(
        name="a", uid=uid, labels=labels or {}, annotations=annotations or {},
        creation_timestamp=T0 - timedelta(days=1),
    )  # fmt: skip
    found = [objects.Taint(key, value, "NoSchedule") for key, value in (taints or {}).items()]
    info = NodeInfo(boot_id=boot, kernel_version=kernel, os_image="os", architecture="amd64")
    status = objects.NodeStatus(conditions=list(conditions), node_info=info)
    return Node(meta, NodeSpec(unschedulable=cordoned, taints=found), status)


statuses = st.sampled_from(["True", "False", "Unknown"])
some = st.dictionaries(
    st.sampled_from(["x", "y", "z"]), st.sampled_from(["", "1", "2"]), max_size=3
)


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    types = draw(st.sets(st.sampled_from(["Ready", "Sick", "Worse"])))
    return a_node(
        *(
            condition(t, draw(statuses), T0 - draw(st.integers(0, 9)) * SECOND)
            for t in sorted(types)
        ),
        boot=draw(st.sampled_from(["boot-1", "boot-2"])),
        uid=draw(st.sampled_from(["u1", "u1", "u2"])),
        cordoned=draw(st.booleans()),
        labels=draw(some),
        annotations=draw(some),
        taints=draw(some),
        kernel=draw(st.sampled_from(["6.1", "6.2"])),
    )


@given(st.lists(nodes() | st.none(), min_size=1, max_size=6))
@pytest.mark.exhaustive
def test_entries_make_the_same_nodes_again(versions: list[Node | None]) -> None:
    recorder, world, old = Recorder(), World([], start=T0), None
    for n, new in enumerate(versions):
        if old is None and new is None:
            continue
        now = T0 + n * SECOND
        found = list(recorder.node("a", old, new, now))
        again = list(read_lines([entry.line() for entry in found], "again"))
        world.feed(*again)
        world.run_until(now)
        old = new
        if new is None:
            assert "a" not in world.nodes
        else:
            assert seen(world.nodes["a"]) == seen(new)


def seen(node: Node) -> tuple[object, ...]:
    """All that rules read of a Node; a Node controller's conditions have no heartbeat."""
    info = node.status.node_info
    return (
        node.metadata.uid,
        node.metadata.labels,
        node.metadata.annotations,
        node.metadata.creation_timestamp,
        node.spec.unschedulable,
        {t.key: t.value for t in node.spec.taints},
        {
            c.type: (c.status, c.reason, c.message, c.last_transition_time)
            for c in node.status.conditions
        },
        (info.boot_id, info.kernel_version, info.os_image),
    )


def kinds(entries: list[Entry]) -> list[str]:
    return [entry.signal for entry in entries]


def test_heartbeats_are_thinned() -> None:
    recorder, told = Recorder(), []
    node = a_node(condition("Ready", "True", T0))
    told += list(recorder.node("a", None, node, T0))
    for second in range(10, 200, 10):
        at = T0 + second * SECOND
        new = a_node(condition("Ready", "True", T0, heard=at))
        told += list(recorder.node("a", node, new, at))
        node = new
    assert kinds(told) == ["lifecycle", "silent", "heard", "heard", "heard"]
    times = [e.at for e in told if e.signal == "heard"]
    assert all(isinstance(t, datetime) for t in times)
    assert times[0] == T0 + THIN


def test_only_those_who_were_heard_are_told() -> None:
    recorder = Recorder()
    late = T0 + 5 * THIN
    old = a_node(condition("Ready", "True", T0), condition("Sick", "False", T0))
    new = a_node(condition("Ready", "True", T0, heard=late), condition("Sick", "False", T0))
    list(recorder.node("a", None, old, T0))
    (entry,) = recorder.node("a", old, new, late)
    assert entry.heard == ["Ready"]


def test_our_own_deeds_are_no_signals() -> None:
    recorder, old = Recorder(), a_node()
    list(recorder.node("a", None, old, T0))
    ours = a_node(cordoned=True, annotations={CORDONED_BY: "job-1"})
    assert list(recorder.node("a", old, ours, T0)) == []
    assert list(recorder.node("a", ours, old, T0)) == []
    assert take_snapshot(ours).cordoned is False and take_snapshot(ours).annotations == {}
    theirs = a_node(cordoned=True)
    assert kinds(list(recorder.node("a", old, theirs, T0))) == ["cordon"]


def test_a_resync_tells_nothing() -> None:
    recorder, node = Recorder(), a_node(condition("Ready", "True", T0))
    list(recorder.node("a", None, node, T0))
    assert list(recorder.node("a", node, node, T0 + timedelta(hours=1))) == []


def an_event(count: int, at: datetime = T0, kind: str = "Node") -> objects.Event:
    return objects.Event(
        KubeObjectMeta(name="e", uid="e-1"), objects.ObjectReference(kind=kind, name="a"),
        type="Warning", reason="Oops", message="x" * 5000, count=count,
        first_timestamp=host_time(T0), last_timestamp=host_time(at),
    )  # fmt: skip


def test_an_event_is_told_when_its_count_grows() -> None:
    recorder = Recorder()
    counts = [
        entry.event.count
        for count in (1, 1, 3, 2, 4)
        for entry in recorder.event(an_event(count), T0)
        if entry.event is not None
    ]
    assert counts == [1, 3, 4]
    assert list(recorder.event(an_event(9, kind="Pod"), T0)) == []
    assert list(recorder.event(None, T0)) == []
    old = an_event(9, at=T0 - timedelta(days=2))
    assert list(Recorder().event(old, T0)) == []


def a_host_event(node: str = "a", phase: str = "Active", **attributes: str) -> HostEvent:
    return HostEvent.model_validate(
        {
            "metadata": {"name": "e-1"},
            "spec": {
                "source": "Alertmanager" if attributes else "AWS",
                "externalID": "e-1",
                "class": "Alert" if attributes else "Reboot",
                "node": {"name": node},
                "attributes": attributes,
            },
            "status": {"phase": phase, "firstSeen": T0, "lastSeen": T0, "seen": 3},
        }
    )


def test_host_events_are_told_as_they_are_and_deleted_ones_are_over() -> None:
    recorder = Recorder()
    (entry,) = recorder.host_event(None, a_host_event(), T0)
    assert entry.host_event is not None and entry.host_event.seen == 3
    (gone,) = recorder.host_event(a_host_event(), None, T0)
    assert gone.host_event is not None and gone.host_event.phase == "Completed"
    assert list(recorder.host_event(a_host_event(phase="Completed"), None, T0)) == []
    assert list(recorder.host_event(None, a_host_event(node=""), T0)) == []


def test_signs_of_life_of_the_source_of_alerts_are_told_once_each() -> None:
    recorder, dog = Recorder(), a_host_event(node="", alertname="Watchdog")
    (entry,) = recorder.host_event(None, dog, T0)
    assert entry.alert_source == "heard"
    assert list(recorder.host_event(dog, dog, T0)) == []
    (entry,) = recorder.host_event(dog, None, T0)
    assert entry.alert_source == "silent"


def test_an_answer_of_a_host_is_told_once() -> None:
    def probe(**status: object) -> HostProbe:
        spec = {"agent": "a", "nodeName": "a", "name": "disk", "expiresAt": T0}
        body = {"metadata": {"name": "p"}, "spec": spec, "status": status}
        return HostProbe.model_validate(body)

    recorder, asked = Recorder(), probe()
    done = probe(answer={"used_pct": 95, "nobody_knows": 1}, answeredAt=T0)
    assert list(recorder.probe(None, asked, T0)) == []
    (entry,) = recorder.probe(asked, done, T0)
    assert entry.probe == {"disk": {"used_pct": 95}}
    assert list(recorder.probe(done, done, T0)) == []
    (entry,) = recorder.probe(asked, probe(error="no", answeredAt=T0), T0)
    assert entry.probe == {"disk": None}
