"""Random asks, releases, faults, restarts and clock jumps, against sums done the slow way.

The model keeps plain lists and knows nothing of groups, tallies or ledgers. At every grant it works
out each limit once more; what it finds allowed but for the rate must be allowed, too.
"""

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support.clock import T0
from support.defender_core import (
    CONTROL_PLANE,
    NEVER_TRIPS,
    POOL,
    ZONE,
    Core,
    a_node,
    a_policy,
    an_ask,
)

from defender.decision.ledger import LedgerPermit, grants_of, load_permit
from kubenode.api.v1alpha1 import Ask, Disruption, ObjectMeta, Permit, Reason
from kubenode.api.v1alpha1.permit import PermitSpec, PermitStatus

COUNT, PER, BURST = 6, timedelta(minutes=30), 3
POLICY = a_policy(
    limits=[
        {
            "scope": "Cluster",
            "maxConcurrent": "25%",
            "minHealthy": "50%",
            "rate": {"count": COUNT, "per": "30m", "burst": BURST},
        },
        {"scope": "Label", "label": ZONE, "maxConcurrent": 1},
        {"scope": "Label", "label": POOL, "maxConcurrent": "50%", "minHealthy": 2},
        {"scope": "ControlPlane", "maxConcurrent": 1, "othersHealthy": True},
        {"scope": "Cluster", "classes": ["Host"], "maxConcurrent": 2},
    ],
    perNode={"maxActs": 3, "within": "2h"},
    breaker=NEVER_TRIPS,
)
BIG = frozenset({Disruption.PODS, Disruption.NODE})
SMALL = 5


@dataclass
class Plain:
    """A node as a list entry."""

    name: str
    labels: dict[str, str]
    healthy: bool = True
    holder: str = ""
    class_: Disruption = Disruption.NONE

    @property
    def well(self) -> bool:
        return self.healthy and not self.holder


@dataclass
class Naive:
    nodes: dict[str, Plain] = field(default_factory=dict)
    grants: list[tuple[datetime, Disruption]] = field(default_factory=list)
    acts: list[tuple[datetime, str, str]] = field(default_factory=list)

    def allows(self, ask: Ask, now: datetime) -> bool:
        """Everything but the rate."""
        node, who = self.nodes[ask.node], ask.holder.name
        if node.holder:
            if node.holder != who:
                return False
            if node.class_.weight >= ask.class_.weight:
                return True
        recent = {
            job for at, n, job in self.acts if n == ask.node and at > now - timedelta(hours=2)
        }
        if len(recent - {who}) >= 3:
            return False
        everyone = list(self.nodes.values())
        if ask.class_ is Disruption.HOST:
            held = [n for n in everyone if n.class_ is Disruption.HOST and n is not node]
            return len(held) < 2
        zone = self.like(node, ZONE)
        pool = self.like(node, POOL)
        return (
            self.group(everyone, node, at_most=max(1, len(everyone) // 4), keep_share=True)
            and self.group(zone, node, at_most=1)
            and self.group(pool, node, at_most=max(1, len(pool) // 2), keep=2, share=True)
            and self.control_plane(node)
        )

    def like(self, node: Plain, label: str) -> list[Plain]:
        if label not in node.labels:
            return []
        return [n for n in self.nodes.values() if n.labels.get(label) == node.labels[label]]

    def group(
        self,
        members: list[Plain],
        node: Plain,
        at_most: int,
        keep: int = 0,
        *,
        share: bool = False,
        keep_share: bool = False,
    ) -> bool:
        if not members:
            return True
        others = [n for n in members if n is not node]
        # A node that has a permit already is no longer among the healthy.
        stay = sum(n.well for n in others)
        if len(members) <= SMALL and (share or keep_share):
            at_most = 1
            if stay < len(others):
                return False
        elif keep_share:
            keep = len(members) // 2
        return sum(n.class_ in BIG for n in others) < at_most and stay >= keep

    def control_plane(self, node: Plain) -> bool:
        if not CONTROL_PLANE.items() <= node.labels.items():
            return True
        others = [
            n
            for n in self.nodes.values()
            if n is not node and CONTROL_PLANE.items() <= n.labels.items()
        ]
        return all(n.well for n in others)

    def tokens(self, now: datetime) -> float:
        """Of a bucket that was full before the first grant."""
        tokens, last = float(BURST), T0
        for at in [at for at, class_ in self.grants if class_ in BIG]:
            tokens = min(BURST, tokens + (at - last) / PER * COUNT) - 1
            last = at
        return min(BURST, tokens + (now - last) / PER * COUNT)


class NeverAboveALimit(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.core = Core(POLICY)
        self.model = Naive()
        self.permits: dict[str, str] = {}
        for number in range(9):
            self.add(number)

    def add(self, number: int) -> None:
        labels = {ZONE: "abc"[number % 3], POOL: "xy"[number % 2]} if number % 4 else {}
        if number < 3:
            labels |= CONTROL_PLANE
        name = f"n{number}"
        self.model.nodes[name] = Plain(name, labels)
        self.core.nodes(a_node(name, labels))

    nodes = st.integers(0, 13).map(lambda number: f"n{number}")

    @rule(
        node=nodes,
        job=st.sampled_from(["", "other", "third", "fourth"]),
        class_=st.sampled_from([Disruption.HOST, Disruption.PODS, Disruption.NODE]),
    )
    def ask(self, node: str, job: str, class_: Disruption) -> None:
        ask = an_ask(node, class_, holder=f"{job}-{node}" if job else "")
        before = self.core.ledger.open_of(ask.holder, node)
        verdict = self.core.ask(ask)
        if node not in self.model.nodes:
            assert verdict.reason is Reason.UNKNOWN
            return
        expected = self.model.allows(ask, self.core.now)
        if verdict.allowed:
            assert expected, f"granted {ask}, which a limit forbids"
        else:
            assert not expected or verdict.reason is Reason.RATE_LIMIT, verdict
            assert verdict.look_again_at is not None and verdict.look_again_at > self.core.now
            assert verdict.message
            return
        plain = self.model.nodes[node]
        if before is not None and before.name != verdict.permit:
            raise AssertionError("one holder, two permits on a node")
        if plain.class_.weight >= class_.weight:
            return
        if class_ in BIG:
            assert self.model.tokens(self.core.now) >= 1 - 1e-3, "above the rate"
        self.model.grants.append((self.core.now, class_))
        if not plain.holder:
            self.model.acts.append((self.core.now, node, ask.holder.name))
        plain.holder, plain.class_ = ask.holder.name, class_
        self.permits[node] = verdict.permit

    @precondition(lambda self: self.permits)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        node = data.draw(st.sampled_from(sorted(self.permits)))
        self.core.release(self.permits.pop(node))
        if node in self.model.nodes:
            self.model.nodes[node].holder, self.model.nodes[node].class_ = "", Disruption.NONE

    @rule(node=nodes, healthy=st.booleans(), cordoned=st.booleans())
    def change(self, node: str, healthy: bool, cordoned: bool) -> None:
        if (plain := self.model.nodes.get(node)) is None:
            return
        plain.healthy = healthy and not cordoned
        changed = a_node(node, plain.labels, ready=healthy, schedulable=not cordoned)
        self.core.nodes(changed)

    @rule(number=st.integers(9, 13))
    def join(self, number: int) -> None:
        if f"n{number}" not in self.model.nodes:
            self.add(number)

    @rule(minutes=st.sampled_from([0, 1, 4, 10, 45, 150]))
    def wait(self, minutes: int) -> None:
        self.core.step(minutes=minutes)

    @rule()
    def restart(self) -> None:
        """Nothing but the Permit objects survives."""
        again = Core(POLICY, now=self.core.now)
        for plain in self.model.nodes.values():
            again.nodes(a_node(plain.name, plain.labels, schedulable=plain.healthy))
        for held in self.core.ledger:
            again.ledger.enter(load_permit(read_back(held), 3600))
        self.core = again

    @rule()
    def count_again(self) -> None:
        """Sums kept up to date are those of a census taken anew."""
        fresh = Core(POLICY, now=self.core.now)
        for plain in self.model.nodes.values():
            fresh.nodes(a_node(plain.name, plain.labels, schedulable=plain.healthy))
        for watch in self.core.control.breakers.watches():  # the built-in policy's may be open
            fresh.census.darken(watch.policy.name, watch.dark)
        for name in self.model.nodes:
            place = fresh.census.place(name)
            assert place is not None
            for group in place.groups:
                ours, theirs = self.core.census.tally(group), fresh.census.tally(group)
                assert (ours.everyone, ours.members) == (theirs.everyone, theirs.members)
                assert ours.healthy == theirs.healthy

    @invariant()
    def one_open_permit_per_node(self) -> None:
        held = [permit.node for permit in self.core.ledger.open()]
        assert len(held) == len(set(held))
        assert set(held) == set(self.permits)

    @invariant()
    def asking_again_gives_the_same(self) -> None:
        for held in self.core.ledger.open():
            ask = an_ask(held.node, held.class_).model_copy(update={"holder": held.holder})
            if held.node in self.model.nodes:
                assert self.core.judge(ask).permit == held.name


def read_back(held: LedgerPermit) -> Permit:
    """What the API server gives for it, through JSON."""
    permit = Permit(
        metadata=ObjectMeta(name=held.name, uid=held.uid, resource_version="1"),
        spec=PermitSpec(
            operation=held.operation,
            class_=held.class_,
            node_name=held.node,
            holder=held.holder,
            grants=grants_of(held),
        ),
        status=PermitStatus(
            state=held.state,
            granted_at=held.granted_at,
            expires_at=held.expires_at,
            released_at=held.released_at,
            scopes=sorted(held.scopes or ()),
        ),
    )
    return Permit.from_server(json.dumps(permit.to_dict()).encode())


pytestmark = pytest.mark.exhaustive
TestNeverAboveALimit = NeverAboveALimit.TestCase
TestNeverAboveALimit.settings = settings(stateful_step_count=60, deadline=None)
