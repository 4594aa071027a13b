"""Nodes, asks and policies for tests of Kube Defender's pure core; one clock, no server."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from support.clock import T0

from defender.decision.control import RiskControl
from defender.decision.ledger import LedgerPermit
from defender.decision.policies import LoadedPolicy, read_policy
from defender.decision.verdict import judge
from kubenode.api.v1alpha1 import Ask, DefenderPolicy, Disruption, Operation, Verdict
from kubenode.api.v1alpha1.permit import Holder
from kubenode.runtime.hosttime import host_time
from kubenode.runtime.kube.objects import (
    KubeObjectMeta,
    Node,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    Taint,
)

ZONE = "topology.kubernetes.io/zone"
POOL = "kubenode.io/pool"
CONTROL_PLANE = {"node-role.kubernetes.io/control-plane": ""}
OLD = T0 - timedelta(days=30)
NEVER_TRIPS = {"trip": {"minNodes": 1_000_000}}
"""`breaker` of a policy whose other limits are what a test is about."""


def a_node(
    name: str,
    labels: Mapping[str, str] | None = None,
    *,
    ready: bool = True,
    schedulable: bool = True,
    born: datetime = OLD,
    since: datetime | None = None,
    leaving: bool = False,
    taints: tuple[str, ...] = (),
) -> Node:
    """`since` is when Ready last changed; default: long after birth, so it once was ready."""
    turned = host_time(since or max(born + timedelta(hours=1), OLD))
    condition = NodeCondition("Ready", str(ready), last_transition_time=turned)
    return Node(
        KubeObjectMeta(
            name=name,
            uid=f"uid-{name}",
            labels=dict(labels or {}),
            creation_timestamp=born,
            deletion_timestamp=T0 if leaving else None,
        ),
        NodeSpec(unschedulable=not schedulable, taints=[Taint(key) for key in taints]),
        NodeStatus([condition]),
    )


def an_ask(
    node: str,
    class_: Disruption = Disruption.NODE,
    holder: str = "",
    operation: Operation = Operation.REPAIR,
    **fields: Any,
) -> Ask:
    """`holder` names and identifies a RemedyOperationJob; default: one for the node."""
    name = holder or f"job-{node}"
    job = Holder(kind="RemedyOperationJob", name=name, uid=f"uid-{name}")
    return Ask(operation=operation, class_=class_, node=node, holder=job, **fields)


def a_policy(name: str = "default", **spec: Any) -> LoadedPolicy:
    """From YAML-like fields of spec; `nodes` is all of them unless given."""
    body = {"metadata": {"name": name}, "spec": {"nodes": {"all": True}} | spec}
    policy = DefenderPolicy.from_user(body)
    return read_policy(policy.model_dump_json(by_alias=True, exclude_none=True).encode())


class Core:
    """Census, ledger and policies, asked and told as the service does it."""

    def __init__(self, *policies: LoadedPolicy, now: datetime = T0) -> None:
        self.now = now
        self.policies = list(policies)
        self.control = RiskControl()
        self.census, self.ledger = self.control.census, self.control.ledger
        self.control.govern(policies, now)

    def nodes(self, *nodes: Node) -> "Core":
        for node in nodes:
            self.control.node_changed(node.metadata.name, node, self.now)
        return self

    def fleet(self, count: int, labels: Mapping[str, str] | None = None, prefix: str = "n") -> None:
        self.nodes(*(a_node(f"{prefix}{i}", labels) for i in range(count)))

    def fail(self, *names: str, labels: Mapping[str, str] | None = None) -> None:
        for name in names:
            member = self.census.member(name)
            known = labels if labels is not None else (member.labels if member else {})
            self.nodes(a_node(name, known, ready=False, since=self.now))

    def step(self, **duration: float) -> None:
        self.now += timedelta(**duration)
        self.control.advance(self.now)

    def judge(self, ask: Ask) -> Verdict:
        return judge(ask, self.control, self.now)

    def ask(self, ask: Ask) -> Verdict:
        """Judge, and take what is allowed, as if its record were written at once."""
        verdict = self.judge(ask)
        if not verdict.allowed or verdict.permit:
            return verdict
        mine = self.ledger.open_of(ask.holder, ask.node)
        if mine is not None:
            self.ledger.grant(mine, ask.class_, self.now)
            return verdict.model_copy(update={"permit": mine.name})
        held = LedgerPermit(
            name=self.ledger.next_name(ask.holder, ask.node),
            node=ask.node,
            operation=ask.operation,
            holder=ask.holder,
            grants=[(ask.class_, self.now)],
            expires_at=self.now + timedelta(hours=1),
            scopes=self.control.scopes_of(ask),
            uid="written",
        )
        self.ledger.enter(held)
        return verdict.model_copy(update={"permit": held.name})

    def release(self, permit: str) -> None:
        held = self.ledger.get(permit)
        assert held is not None
        self.ledger.release(held, self.now)
