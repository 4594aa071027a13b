"""docs/reference/small-clusters.md: every answer of the default policy for 1 to 10 nodes.

python -m devtools.small_clusters            write it
python -m devtools.small_clusters --check    exit 1 when it differs

People guess wrong about shares of few nodes: is 2% of 10 nodes none, or one? The production
function `judge` fills every cell of the page.
"""

import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from defender.decision.control import RiskControl
from defender.decision.ledger import LedgerPermit
from defender.decision.verdict import judge
from devtools.generators import ROOT, run
from kubenode.api.v1alpha1 import Ask, Disruption, Operation
from kubenode.api.v1alpha1.permit import Holder
from kubenode.runtime.hosttime import host_time
from kubenode.runtime.kube.objects import KubeObjectMeta, Node, NodeCondition, NodeStatus

FILE = ROOT / "docs" / "reference" / "small-clusters.md"
LARGEST = 10
OTHERS = 500
"""Healthy nodes around a small group, so that the limits of the whole cluster do not decide."""
NOW = datetime(2026, 1, 1, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=30)


@dataclass(frozen=True, slots=True)
class ClusterSetting:
    """A group of nodes that the page has a table for."""

    title: str
    text: str
    labels: dict[str, str] = field(default_factory=dict)
    others: int = OTHERS
    class_: Disruption = Disruption.NODE


SETTINGS = (
    ClusterSetting(
        "The whole cluster",
        "Nodes without labels. The cluster's limits are 2% at once, 80% healthy.",
        others=0,
    ),
    ClusterSetting(
        "A zone",
        "In a large cluster that is well. The zone's limits are 2% at once, 60% healthy.",
        {"topology.kubernetes.io/zone": "a"},
    ),
    ClusterSetting(
        "A rack",
        "In a large cluster that is well. The rack's limit is 1 at once, whatever its size.",
        {"kubenode.io/rack": "a"},
    ),
    ClusterSetting(
        "A pool",
        "In a large cluster that is well. The pool's limits are 10% at once, 2 healthy: the second"
        " is a count and holds for small pools too, so a pool of one or two nodes is never"
        " disrupted unless a policy says otherwise.",
        {"kubenode.io/pool": "a"},
    ),
    ClusterSetting(
        "The control plane",
        "In a large cluster that is well. One at once, and all others healthy.",
        {"node-role.kubernetes.io/control-plane": ""},
    ),
    ClusterSetting(
        "The whole cluster, acts of class Host",
        "Repairs on the host that leave pods alone, such as the restart of a daemon. The cluster's"
        " limit is 5% at once.",
        others=0,
        class_=Disruption.HOST,
    ),
)

HEAD = f"""<!-- Written by `python -m devtools.small_clusters`: change the limits, not this. -->
# What Kube Defender answers in small clusters

Every answer of the default policy for 1 to {LARGEST} nodes. A row is the size of the group, a
column how many of its nodes are not healthy. In a cell is how many of these may be disrupted at
once, as all of them ask one after the other; where none may, the reason. In column 0 a healthy
node asks, as for a rollout.

The arithmetic:

- A percentage of `maxConcurrent` rounds down, but to no less than 1 (`"0%"` is none).
  A percentage of `minHealthy` rounds down. A count is a count, also above the number of nodes.
- In a group of up to 5 nodes (`smallPool.nodes`) percentages do not apply: one at a time, and all
  others healthy.
- Healthy is a node that is Ready, schedulable and without an open permit. Disrupting a node that
  is not healthy takes no healthy one away, but what must stay healthy must be there.
- A node that was never Ready, or is being deleted, counts neither as a member nor as healthy.
- A node without the label belongs to no group of that label.
"""


def page() -> str:
    """Return the whole page as Markdown."""
    return "\n".join([HEAD, *(_section(setting) for setting in SETTINGS)])


def _section(setting: ClusterSetting) -> str:
    columns = range(LARGEST + 1)
    lines = [
        f"## {setting.title}\n\n{setting.text}\n",
        "| nodes | " + " | ".join(f"{failed} unhealthy" for failed in columns) + " |",
        "| ---: |" + " --- |" * len(columns),
    ]
    control = RiskControl()
    for number in range(setting.others):
        control.census.put(_node(f"other-{number}", {}, ready=True), NOW)
    for nodes in range(1, LARGEST + 1):
        cells = [
            answer(setting, control, nodes, failed) if failed <= nodes else "" for failed in columns
        ]
        lines.append(f"| {nodes} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def answer(setting: ClusterSetting, control: RiskControl, nodes: int, failed: int) -> str:
    """Return how many of the unhealthy nodes get a permit, or the reason if none does.

    control: has the nodes around the group; the group is added and removed again.
    """
    census, ledger = control.census, control.ledger
    names = [f"n{number}" for number in range(nodes)]
    for number, name in enumerate(names):
        census.put(_node(name, setting.labels, ready=number >= failed), NOW)
    reason = ""
    for name in names[:failed] or names[:1]:
        ask = Ask(
            operation=Operation.REPAIR if failed else Operation.ROLLOUT,
            class_=setting.class_,
            node=name,
            holder=Holder(kind="RemedyOperationJob", name=name, uid=name),
        )
        verdict = judge(ask, control, NOW)
        if verdict.allowed:
            ledger.enter(_make_permit(ask, control))
        else:
            reason = reason or verdict.reason
    granted = len(ledger)
    for name in names:
        census.remove(name)
        ledger.forget(name)
    return str(granted) if granted else reason


def _make_permit(ask: Ask, control: RiskControl) -> LedgerPermit:
    return LedgerPermit(
        name=ask.node,
        node=ask.node,
        operation=ask.operation,
        holder=ask.holder,
        grants=[(ask.class_, NOW)],
        expires_at=NOW + timedelta(hours=1),
        scopes=control.scopes_of(ask),
        uid=ask.node,
    )


def _node(name: str, labels: dict[str, str], *, ready: bool) -> Node:
    since = LONG_AGO if ready else NOW - timedelta(minutes=1)
    condition = NodeCondition("Ready", str(ready), last_transition_time=host_time(since))
    return Node(
        KubeObjectMeta(name=name, uid=name, labels=labels, creation_timestamp=LONG_AGO),
        status=NodeStatus(conditions=[condition]),
    )


def wanted() -> dict[Path, str]:
    return {FILE: page()}


if __name__ == "__main__":
    sys.exit(run(wanted(), sys.argv[1:]))
