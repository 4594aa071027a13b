"""Read from an admission review what a user is about to do to a node. No I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256
from typing import Any

import msgspec

from kubenode.api.v1alpha1 import Ask, Disruption, Operation
from kubenode.api.v1alpha1.defenderpolicy import Guard, GuardMode
from kubenode.api.v1alpha1.permit import Holder
from kubenode.runtime.admission.review import Review
from kubenode.runtime.kube.objects import KubeObjectMeta, Node, structs

OVERRIDE = "kubenode.io/override"
"""Annotation with the reason for acting although Kube Defender would refuse."""
LONGEST_REASON = 256
USER = "User"
"""Kind of the holder of a permit for an act of a user."""
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
SHUT_DOWN = "node.cloudprovider.kubernetes.io/shutdown"
_node = structs(Node)


class GuardedActKind(StrEnum):
    """Kinds of acts that the webhook checks."""

    DELETION = "delete"
    CORDON = "cordon"
    EVICTION = "evict"

    def mode(self, guard: Guard) -> GuardMode:
        match self:
            case GuardedActKind.DELETION:
                return guard.deletions
            case GuardedActKind.CORDON:
                return guard.cordons
            case GuardedActKind.EVICTION:
                return guard.evictions

    @property
    def operation(self) -> Operation:
        return Operation.DELETE if self is GuardedActKind.DELETION else Operation.EVACUATE

    @property
    def class_(self) -> Disruption:
        return Disruption.NODE if self is GuardedActKind.DELETION else Disruption.PODS


@dataclass(frozen=True, slots=True)
class GuardedAct:
    """An act of a user.

    node: the Node before the act.
    override: the user's reason to override, "" for none.
    """

    kind: GuardedActKind
    node: Node
    user: str
    groups: tuple[str, ...]
    dry_run: bool
    override: str = ""

    @property
    def name(self) -> str:
        return self.node.metadata.name

    def ask(self, *, dry_run: bool) -> Ask:
        return Ask(
            operation=self.kind.operation,
            class_=self.kind.class_,
            node=self.name,
            holder=holder_of(self.user),
            dry_run=dry_run,
        )


def holder_of(user: str) -> Holder:
    """Return the holder for the user, always the same, so that a drain of a node uses one
    permit.
    """
    digest = sha256(user.encode(errors="replace")).hexdigest()[:32]
    return Holder(kind=USER, name=user[:253] or "unknown", uid=f"user-{digest}")


def of_node(review: Review) -> GuardedAct | None:
    """Return the act if it is a deletion or a cordon, else None. Raises ValueError for an invalid
    Node.
    """
    if review.operation == "DELETE" and review.old is not None:
        return _act(GuardedActKind.DELETION, review, read_node(review.old), review.old)
    if review.operation != "UPDATE" or review.old is None or review.object is None:
        return None
    before, after = read_node(review.old), read_node(review.object)
    if before.spec.unschedulable or not after.spec.unschedulable:
        return None
    return _act(GuardedActKind.CORDON, review, before, review.object)


def of_eviction(review: Review, node: Node, pod: KubeObjectMeta) -> GuardedAct:
    """Return the act. The override may be on the Eviction or on the pod."""
    act = _act(GuardedActKind.EVICTION, review, node, review.object or {})
    return replace(act, override=act.override or _cut(pod.annotations.get(OVERRIDE, "")))


def _act(kind: GuardedActKind, review: Review, node: Node, marked: Mapping[str, Any]) -> GuardedAct:
    annotations = (marked.get("metadata") or {}).get("annotations") or {}
    override = _cut(str(annotations.get(OVERRIDE, "")))
    return GuardedAct(kind, node, review.user, review.groups, review.dry_run, override)


def read_node(obj: Mapping[str, Any]) -> Node:
    """Return the Node. Raises ValueError."""
    node = _node(msgspec.json.encode(obj))
    if not node.metadata.name:
        raise ValueError("a Node without a name")
    return node


def _cut(reason: str) -> str:
    return reason.strip()[:LONGEST_REASON]


def gone(node: Node) -> bool:
    """Return whether the machine is known to be off for good, so that the act disrupts nothing.

    Only facts of Kubernetes count: the node is silent, and a person or the cloud controller has
    tainted it as out of service or shut down.
    """
    ready = node.ready_condition
    if ready is None or ready.status != "Unknown":
        return False
    return any(taint.key in (OUT_OF_SERVICE, SHUT_DOWN) for taint in node.spec.taints)
