"""Labels and taints of Machines on Nodes: what is another's stays, what is ours goes again."""

from copy import deepcopy
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from kubenode.api.v1alpha1.machine import MachineNode
from kubenode.runtime.components.render import UNINITIALIZED
from kubenode.runtime.kube.objects import Node, structs
from machine.machine.nodesync import (
    LABELS_FROM_MACHINE,
    TAINTS_FROM_MACHINE,
    NodePatch,
    plan,
    release,
)

decode = structs(Node)


class Server:
    """One Node, patched as the API server would."""

    def __init__(
        self, labels: dict[str, str] | None = None, taints: list[dict[str, str]] | None = None
    ) -> None:
        meta = {"name": "n", "labels": labels or {}, "annotations": {"other": "kept"}}
        self.raw: dict[str, Any] = {"metadata": meta, "spec": {"taints": taints or []}}

    @property
    def node(self) -> Node:
        return decode(msgspec.json.encode(self.raw))

    def apply(self, body: Any) -> None:
        for kind in ("labels", "annotations"):
            for key, value in body.get("metadata", {}).get(kind, {}).items():
                if value is None:
                    self.raw["metadata"][kind].pop(key, None)
                else:
                    self.raw["metadata"][kind][key] = value
        if "spec" in body:
            self.raw["spec"]["taints"] = body["spec"]["taints"]

    def sync(
        self, want: MachineNode, initialized: bool = True, starts_empty: bool = False
    ) -> NodePatch:
        found = plan(self.node, "m", want, initialized=initialized, starts_empty=starts_empty)
        self.apply(found.body)
        again = plan(self.node, "m", want, initialized=initialized, starts_empty=starts_empty)
        assert not again.body, "once written nothing is left to write"
        return found

    @property
    def labels(self) -> dict[str, str]:
        return dict(self.raw["metadata"]["labels"])

    @property
    def taints(self) -> dict[str, str]:
        return {f"{t['key']}:{t['effect']}": t.get("value", "") for t in self.raw["spec"]["taints"]}


def wanted(labels: dict[str, str] | None = None, *taints: tuple[str, str, str, str]) -> MachineNode:
    kinds = [dict(zip(("key", "value", "effect", "propagation"), t, strict=True)) for t in taints]
    return MachineNode.model_validate({"labels": labels or {}, "taints": kinds})


ALWAYS = ("pool", "online", "NoSchedule", "Always")
ONCE = ("start", "", "NoExecute", "OnInitialization")


def test_labels_and_taints_are_set_and_written_down_in_one_patch() -> None:
    server = Server()
    found = server.sync(wanted({"pool": "online"}, ALWAYS))
    assert set(found.body) == {"metadata", "spec"}
    assert server.labels == {"pool": "online"}
    annotations = server.raw["metadata"]["annotations"]
    assert annotations["kubenode.io/machine"] == "m"
    assert annotations[LABELS_FROM_MACHINE] == "pool=online"
    assert annotations[TAINTS_FROM_MACHINE] == "pool=online:NoSchedule"


def test_another_value_at_first_sync_is_a_conflict_and_stays() -> None:
    server = Server({"pool": "batch"}, [{"key": "pool", "value": "b", "effect": "NoSchedule"}])
    found = server.sync(wanted({"pool": "online", "rack": "1"}, ALWAYS))
    assert len(found.conflicts) == 2 and "'batch'" in found.conflicts[0]
    assert server.labels == {"pool": "batch", "rack": "1"}
    assert server.taints == {"pool:NoSchedule": "b"}
    server.apply(release(server.node, "m"))
    assert server.labels == {"pool": "batch"}


def test_what_was_there_with_the_same_value_is_not_ours_and_outlives_us() -> None:
    server = Server({"pool": "online"})
    assert not server.sync(wanted({"pool": "online"})).conflicts
    server.apply(release(server.node, "m"))
    assert server.labels == {"pool": "online"}


def test_a_wish_that_changes_or_goes_moves_what_is_ours() -> None:
    server = Server()
    server.sync(wanted({"pool": "a", "rack": "1"}, ALWAYS))
    found = server.sync(wanted({"pool": "b"}))
    assert not found.overwritten and not found.conflicts
    assert server.labels == {"pool": "b"} and server.taints == {}


def test_invariant_12_a_key_of_ours_that_another_changes_is_put_right_and_told() -> None:
    server = Server()
    server.sync(wanted({"pool": "a", "rack": "1"}, ALWAYS))
    server.raw["metadata"]["labels"]["pool"] = "theirs"
    del server.raw["metadata"]["labels"]["rack"]
    server.raw["spec"]["taints"] = []
    found = server.sync(wanted({"pool": "a", "rack": "1"}, ALWAYS))
    assert found.overwritten == ("pool", "rack", "pool")
    assert server.labels == {"pool": "a", "rack": "1"}


def test_on_initialization_others_may_take_it_off_and_it_does_not_come_back() -> None:
    server, want = Server(), wanted(None, ONCE)
    server.sync(want, initialized=False)
    assert server.taints == {"start:NoExecute": ""}
    server.raw["spec"]["taints"] = []
    assert not server.sync(want, initialized=False).overwritten
    assert server.taints == {}
    late = Server()
    late.sync(want, initialized=True)
    assert late.taints == {}, "its beginning is over"


def test_a_machine_that_we_make_is_kept_empty_until_it_is_whole() -> None:
    server, want = Server(), wanted()
    server.sync(want, initialized=False, starts_empty=True)
    assert f"{UNINITIALIZED}:NoSchedule" in server.taints
    server.sync(want, initialized=True, starts_empty=True)
    assert server.taints == {}


def test_a_kubelet_that_registers_uninitialized_is_let_go_once_whole() -> None:
    taint = {"key": UNINITIALIZED, "effect": "NoExecute"}
    server = Server(taints=[taint])
    server.sync(wanted(), initialized=False)
    assert server.taints, "an imported one is not ours to open before"
    server.sync(wanted(), initialized=True)
    assert server.taints == {}


def test_f29_a_taint_of_another_survives_with_all_that_it_holds() -> None:
    theirs = {"key": "t", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
    server = Server(taints=[theirs])
    server.sync(wanted(None, ALWAYS))
    assert [t["key"] for t in server.raw["spec"]["taints"]] == ["t", "pool"]
    assert server.node.spec.taints[0].time_added is not None


def test_nothing_is_taken_off_a_node_that_is_another_machines() -> None:
    server = Server()
    server.sync(wanted({"pool": "a"}, ALWAYS))
    assert not release(server.node, "other")


def test_records_that_nobody_can_read_are_nobodys() -> None:
    server = Server({"pool": "a"})
    server.raw["metadata"]["annotations"] |= {
        "kubenode.io/machine": "m",
        LABELS_FROM_MACHINE: "nonsense,,=",
        TAINTS_FROM_MACHINE: "=x",
    }
    server.apply(release(server.node, "m"))
    assert server.labels == {"pool": "a"}


KEYS, VALUES = st.sampled_from("abc"), st.sampled_from("123")
LABELS = st.dictionaries(KEYS, VALUES, max_size=3)
EFFECTS = st.sampled_from(["NoSchedule", "NoExecute"])
KINDS = st.lists(st.tuples(KEYS, EFFECTS), unique=True, max_size=3)


@settings(max_examples=60, deadline=None)
@given(theirs=LABELS, wishes=st.lists(LABELS, min_size=1, max_size=4), kinds=KINDS, own=KINDS)
def test_invariant_10_what_was_there_before_us_is_there_after_us(
    theirs: dict[str, str],
    wishes: list[dict[str, str]],
    kinds: list[tuple[str, str]],
    own: list[tuple[str, str]],
) -> None:
    before = [{"key": key, "value": "9", "effect": effect} for key, effect in kinds]
    server = Server(theirs, before)
    start = deepcopy(server.raw)
    for wish in wishes:
        taints = [(key, "1", effect, "Always") for key, effect in own]
        server.sync(wanted(wish, *taints))
        for key, value in theirs.items():
            assert server.labels[key] == value
    server.apply(release(server.node, "m"))
    assert server.raw == start
