"""What a verdict costs: `judge` and what keeps its sums up to date, no server, no writes.

A fleet with zones, racks and pools, policies with the limits of the default, a tenth of a percent
of the nodes under repair, a day of released permits on record. Each figure is over many asks about
different nodes; microseconds of processor time, whatever else the machine does.
"""

import argparse
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from time import thread_time_ns
from typing import Any

from defender.decision.control import RiskControl
from defender.decision.ledger import LedgerPermit
from defender.decision.policies import LoadedPolicy, read_policy
from defender.decision.verdict import judge
from kubenode.api.v1alpha1 import Ask, DefenderPolicy, Disruption, Operation, Reason, default_policy
from kubenode.api.v1alpha1.permit import Holder
from kubenode.runtime.hosttime import host_time
from kubenode.runtime.kube.objects import KubeObjectMeta, Node, NodeCondition, NodeStatus

NOW = datetime(2026, 1, 7, 12, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=30)
ASKS = 2_000
RECORD = 1_000
"""Released permits of the last day."""


def options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("verdict")
    group.add_argument("--verdict-nodes", type=int, nargs="+", default=[1_000, 10_000])
    group.add_argument("--verdict-policies", type=int, nargs="+", default=[1, 20])


def figures(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    return [
        measure(nodes, policies)
        for nodes in arguments.verdict_nodes
        for policies in arguments.verdict_policies
    ]


def measure(nodes: int, policies: int) -> dict[str, Any]:
    free = [_policy(number, {}) for number in range(policies)]
    fleet = [_node(number) for number in range(nodes)]
    control = RiskControl()
    control.govern(free, NOW)
    began = thread_time_ns()
    for node in fleet:
        control.node_changed(node.metadata.name, node, NOW)
    filled = (thread_time_ns() - began) / nodes
    _record(control, nodes)
    asks = [_ask(number % nodes) for number in range(nodes // 2, nodes // 2 + ASKS)]
    found: dict[str, Any] = {
        "nodes": nodes,
        "policies": policies,
        "openPermits": len(control.ledger.open()),
        "permitsOnRecord": len(control.ledger),
        "granted": _verdicts(control, asks, Reason.GRANTED),
        "grantedAndTaken": _taking(control, asks),
    }
    for reason, limit in (
        (Reason.CONCURRENCY_LIMIT, {"maxConcurrent": 1}),
        (Reason.RATE_LIMIT, {"rate": {"count": 60, "per": "24h", "burst": 1}}),
    ):
        control.govern([*free[1:], _policy(0, limit)], NOW)
        found[f"refused{reason}"] = _verdicts(control, asks, reason)
    found["nodeChange"] = _spread(_changes(control, nodes))
    found["nodeAdded"] = {"mean": round(filled / 1000, 1)}
    found["govern"] = _spread(_times(lambda _: control.govern(free, NOW), range(5)))
    return found


def _policy(number: int, limit: dict[str, Any]) -> LoadedPolicy:
    """The default one with room to grant, or with one limit that refuses."""
    spec = default_policy().to_dict()["spec"]
    for each in spec["limits"]:
        each |= {"maxConcurrent": "50%", "minHealthy": "10%"}
        if "rate" in each:
            each["rate"] = {"count": 50_000, "per": "1h", "burst": 50_000}
    if limit:
        spec["limits"][0] = {"scope": "Cluster"} | limit
    spec["perNode"] = {"maxActs": 1000, "within": "24h"}
    name = "default" if number == 0 else f"policy-{number}"
    policy = DefenderPolicy.from_user({"metadata": {"name": name}, "spec": spec})
    return read_policy(policy.model_dump_json(by_alias=True, exclude_none=True).encode())


def _node(number: int, *, ready: bool = True) -> Node:
    labels = {
        "kubernetes.io/hostname": f"n{number:05}",
        "topology.kubernetes.io/zone": "abc"[number // 40 % 3],
        "kubenode.io/rack": f"r{number // 40}",
        "kubenode.io/pool": f"p{number % 7}",
    }
    since = LONG_AGO + timedelta(hours=1) if ready else NOW - timedelta(minutes=1)
    condition = NodeCondition("Ready", str(ready), last_transition_time=host_time(since))
    meta = KubeObjectMeta(f"n{number:05}", uid=f"uid-{number}", labels=labels)
    meta.creation_timestamp = LONG_AGO
    return Node(meta, status=NodeStatus([condition]))


def _ask(number: int) -> Ask:
    holder = Holder(kind="RemedyOperationJob", name=f"job-{number}", uid=f"uid-job-{number}")
    node = f"n{number:05}"
    return Ask(operation=Operation.REPAIR, class_=Disruption.NODE, node=node, holder=holder)


def _hold(control: RiskControl, number: int, at: datetime) -> LedgerPermit:
    ask = _ask(number)
    held = LedgerPermit(
        name=f"{ask.node}-{at.timestamp():.0f}",
        node=ask.node,
        operation=ask.operation,
        holder=ask.holder,
        grants=[(ask.class_, at)],
        expires_at=NOW + timedelta(hours=1),
        scopes=control.scopes_of(ask),
        uid="written",
    )
    control.ledger.enter(held)
    return held


def _record(control: RiskControl, nodes: int) -> None:
    for number in range(RECORD):
        at = NOW - timedelta(days=1) * (1 - number / RECORD)
        control.ledger.release(_hold(control, number % (nodes // 4), at), at)
    for number in range(max(5, nodes // 1000)):
        _hold(control, nodes // 4 + 7 * number, NOW - timedelta(minutes=5))


def _verdicts(control: RiskControl, asks: list[Ask], reason: Reason) -> dict[str, float]:
    for ask in asks[:10]:
        assert judge(ask, control, NOW).reason is reason
    return _spread(_times(lambda ask: judge(ask, control, NOW), asks))


def _taking(control: RiskControl, asks: list[Ask]) -> dict[str, float]:
    """With a permit that was entered and one that was released before each ask: as in a storm."""
    times = []
    for number, ask in enumerate(asks):
        held = _hold(control, number % 100, NOW - timedelta(seconds=1))
        times += _times(lambda ask: judge(ask, control, NOW), [ask])
        control.ledger.forget(held.name)
    return _spread(times)


def _changes(control: RiskControl, nodes: int) -> list[int]:
    """A node that fails and comes back, and the count that the next ask makes."""

    def change(number: int) -> None:
        node = _node(number // 2, ready=bool(number % 2))
        control.node_changed(node.metadata.name, node, NOW)
        control.counts.catch_up()

    return _times(change, range(min(nodes, ASKS)))


def _times(act: Callable[[Any], object], over: Iterable[Any]) -> list[int]:
    """Nanoseconds."""
    times = []
    for each in over:
        began = thread_time_ns()
        act(each)
        times.append(thread_time_ns() - began)
    return times


def _spread(times: list[int]) -> dict[str, float]:
    """Microseconds."""
    ordered = sorted(times)
    return {
        "p50": round(ordered[len(ordered) // 2] / 1000, 1),
        "p99": round(ordered[int(len(ordered) * 0.99)] / 1000, 1),
    }
