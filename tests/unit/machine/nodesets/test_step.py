"""What becomes of a Node with a NodeClass, over every case."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product

import pytest
from support.api_objects import GOOD

from kubenode.api.v1alpha1 import Machine, NodeClass
from kubenode.runtime.kube.objects import KubeObjectMeta, Node, NodeInfo, NodeSpec, NodeStatus
from machine.names import NODE_CLASS
from machine.nodesets.conversion import make_machine
from machine.nodesets.step import FINALIZER, NodeAct, NodeClaim, step

T0 = datetime(2026, 11, 29, tzinfo=UTC)
MACHINES = ("none", "ours", "imported", "of another instance", "deleting", "released")


@dataclass(frozen=True, slots=True)
class Case:
    deleting: bool
    labelled: bool
    guarded: bool
    registered: bool
    class_exists: bool
    machine: str

    @property
    def claim(self) -> NodeClaim:
        meta = KubeObjectMeta(
            name="worker-7",
            labels={NODE_CLASS: "small"} if self.labelled else {},
            finalizers=["other"] + [FINALIZER] * self.guarded,
            deletion_timestamp=T0 if self.deleting else None,
        )
        host = NodeStatus(node_info=NodeInfo(kubelet_version="v1.36.0"))
        node = Node(
            meta,
            NodeSpec(provider_id="x://theirs" if self.machine == "of another instance" else ""),
            host if self.registered else NodeStatus(),
        )
        return NodeClaim(node, a_class() if self.class_exists else None, self._machine())

    def _machine(self) -> Machine | None:
        if self.machine == "none":
            return None
        body = make_machine("worker-7", a_class())
        if self.machine == "imported":
            body["spec"] = {"origin": "Import", "addresses": ["10.0.0.7"]}
        if self.machine == "of another instance":
            body["spec"]["providerID"] = "x://ours"
        if self.machine in ("deleting", "released"):
            body["metadata"]["deletionTimestamp"] = "2026-11-29T00:00:00Z"
            reason = "Releasing" if self.machine == "released" else "Draining"
            condition = {"type": "Deletable", "status": "False", "reason": reason}
            condition["lastTransitionTime"] = "2026-11-29T00:00:00Z"
            body["status"] = {"conditions": [condition]}
        return Machine.model_validate(body)

    @property
    def has_machine(self) -> bool:
        return self.machine in ("ours", "deleting", "released")


def a_class() -> NodeClass:
    return NodeClass.model_validate(GOOD["node-class"])


def every_case() -> Iterator[Case]:
    yes_no = (False, True)
    for each in product(yes_no, yes_no, yes_no, yes_no, yes_no, MACHINES):
        yield Case(*each)


CASES = tuple(every_case())


def act(case: Case) -> NodeAct:
    return step(case.claim).act


def test_a_machine_is_made_only_for_a_guarded_node_without_any_host() -> None:
    made = {case for case in CASES if act(case) is NodeAct.CREATE_MACHINE}
    assert made == {Case(False, True, True, False, True, "none")}


def test_a_node_is_guarded_before_it_gets_a_machine() -> None:
    for case in CASES:
        if act(case) is NodeAct.ADD_FINALIZER:
            assert case.labelled and case.class_exists
            assert not case.guarded and not case.deleting
            assert case.has_machine or not case.registered
    assert act(Case(False, True, False, False, True, "none")) is NodeAct.ADD_FINALIZER
    assert act(Case(False, True, False, True, True, "ours")) is NodeAct.ADD_FINALIZER


def test_a_machine_is_removed_only_if_it_is_of_a_guarded_deleted_node() -> None:
    for case in CASES:
        removed = act(case) is NodeAct.REMOVE_MACHINE
        assert removed == (case.deleting and case.guarded and case.machine == "ours")


def test_a_deleted_node_stays_until_its_instance_is_gone() -> None:
    for case in CASES:
        if not (case.deleting and case.guarded):
            continue
        waits = case.machine in ("ours", "deleting")
        assert (act(case) is NodeAct.REMOVE_FINALIZER) != waits


def test_a_node_without_the_label_is_let_go_and_keeps_its_machine() -> None:
    for case in CASES:
        if not case.labelled and not case.deleting:
            expected = NodeAct.REMOVE_FINALIZER if case.guarded else NodeAct.NONE
            assert act(case) is expected


def test_a_node_that_is_not_guarded_is_never_let_go() -> None:
    for case in CASES:
        if act(case) in (NodeAct.REMOVE_FINALIZER, NodeAct.REMOVE_MACHINE):
            assert case.guarded


@pytest.mark.parametrize(
    ("case", "reason", "remedy"),
    [
        (Case(False, True, False, False, False, "none"), "NodeClassMissing", "no NodeClass small"),
        (Case(False, True, False, True, True, "none"), "AlreadyRegistered", "import it"),
        (Case(False, True, False, False, True, "imported"), "ForeignMachine", "remove label"),
        (Case(False, True, False, False, True, "of another instance"), "ForeignMachine", "remove"),
    ],
)
def test_a_node_that_gets_no_machine_says_why(case: Case, reason: str, remedy: str) -> None:
    decision = step(case.claim)
    assert (decision.act, decision.reason) == (NodeAct.NONE, reason)
    assert remedy in decision.message
