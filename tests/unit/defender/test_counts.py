"""Sums that are kept up to date are those of counting everything anew, whatever happened."""

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from support.clock import T0
from support.defender_core import CONTROL_PLANE, POOL, ZONE, Core, a_node, a_policy, an_ask

from defender.decision.census import CensusTally, NodeHealth, scope_of
from defender.decision.coverage import ScopedLimit, classes_of, in_scope, is_control_plane
from defender.decision.ledger import LedgerPermit
from defender.decision.limits.bucket import tokens_at
from defender.decision.policies import LoadedPolicy
from kubenode.api.v1alpha1 import Disruption, Operation
from kubenode.api.v1alpha1.defenderpolicy import LimitScope
from kubenode.api.v1alpha1.permit import Holder, PermitState

RATE = {"count": 3, "per": "20m", "burst": 2}
LIMITS: list[dict[str, Any]] = [
    {"scope": "Cluster", "maxConcurrent": "50%", "minHealthy": "40%", "rate": RATE},
    {"scope": "Label", "label": ZONE, "maxConcurrent": 2, "rate": RATE},
    {"scope": "ControlPlane", "maxConcurrent": 1, "othersHealthy": True},
    {"scope": "Cluster", "classes": ["Host", "Pods"], "maxConcurrent": 3, "rate": RATE},
]
X = {"selector": {"matchLabels": {POOL: "x"}}}
POLICIES = {
    "default": a_policy(limits=LIMITS),
    "other": a_policy("other", limits=LIMITS[1:2], operations=["Repair"]),
    "x": a_policy("x", limits=LIMITS[:2], nodes=X, exclude={"matchLabels": {ZONE: "c"}}),
}
NODES = [f"n{number}" for number in range(7)]
LABELS = [{ZONE: "a"}, {ZONE: "b", POOL: "x"}, {POOL: "x"} | CONTROL_PLANE, {}, {ZONE: "c"}]
CLASSES = [Disruption.HOST, Disruption.PODS, Disruption.NODE]
CLIENTS = ["a client", "another"]
SCOPES = ["cluster", f"{ZONE}=a", f"{ZONE}=b", f"{POOL}=x"]


class Recount:
    """The same sums, by going through every node and every permit."""

    def __init__(self, core: Core, dark: dict[str, frozenset[str]]) -> None:
        self.core, self.dark = core, dark
        found = (core.census.member(name) for name in NODES)
        self.members = [member for member in found if member is not None]

    def inside(self, name: str, bound: ScopedLimit, policy: LoadedPolicy) -> bool:
        member = self.core.census.member(name)
        if member is None or not policy.covers(member.labels):
            return False
        plane = is_control_plane(member.labels)
        return scope_of(bound.limit, member.labels, plane) == bound.scope

    def counts(self, held: LedgerPermit, bound: ScopedLimit, policy: LoadedPolicy) -> bool:
        assert policy.spec is not None
        if held.operation not in policy.spec.operations:
            return False
        if held.scopes is None:
            return True
        named = [each for each in held.scopes if each.startswith("policy:")]
        if bound.scope in held.scopes and (not named or f"policy:{policy.name}" in named):
            return True
        return self.inside(held.node, bound, policy)

    def open(
        self, bound: ScopedLimit, policy: LoadedPolicy, mine: LedgerPermit | None
    ) -> list[LedgerPermit]:
        return [
            held
            for held in self.core.ledger
            if self.counts(held, bound, policy)
            and held.open
            and held is not mine
            and held.counts_as(bound.classes)
        ]

    def tokens(
        self, bound: ScopedLimit, policy: LoadedPolicy, now: datetime, mine: LedgerPermit | None
    ) -> float:
        granted = sorted(
            at
            for held in self.core.ledger
            if self.counts(held, bound, policy)
            for place, (class_, at) in enumerate(held.grants)
            if class_ in bound.classes
            and not (held is mine and (held.late or place >= len(held.grants) - held.unsure))
        )
        assert bound.limit.rate is not None
        return tokens_at(now, granted, bound.limit.rate)

    def tally(self, bound: ScopedLimit, policy: LoadedPolicy) -> CensusTally:
        inside = [m for m in self.members if self.inside(m.name, bound, policy)]
        scopes = self.dark.get(policy.name, frozenset())
        lit = [m for m in inside if not any(in_scope(scope, m.labels) for scope in scopes)]
        if lit and bound.limit.scope is not LimitScope.CONTROL_PLANE:
            inside = lit
        healthy = [m for m in inside if m.health is NodeHealth.HEALTHY]
        taken = [m for m in healthy if any(h.open for h in self.core.ledger.on_node(m.name))]
        members = sum(m.counted for m in inside)
        return CensusTally(len(inside), members, len(healthy), len(taken))


class CountsAreThoseOfARecount(RuleBasedStateMachine):
    """The census is told of darkness and policies here, not by breakers."""

    def __init__(self) -> None:
        super().__init__()
        self.core = Core(*POLICIES.values())
        self.dark: dict[str, frozenset[str]] = {}
        self.policies = list(POLICIES.values())
        self.number = 0

    node = st.sampled_from(NODES)
    permit = st.integers(0, 30)

    @rule(
        node=node,
        labels=st.sampled_from(LABELS),
        ready=st.booleans(),
        schedulable=st.booleans(),
        young=st.booleans(),
    )
    def put(
        self, node: str, labels: dict[str, str], ready: bool, schedulable: bool, young: bool
    ) -> None:
        born = self.core.now if young else T0 - timedelta(days=3)
        self.core.nodes(a_node(node, labels, ready=ready, schedulable=schedulable, born=born))

    @rule(node=node)
    def remove(self, node: str) -> None:
        self.core.census.remove(node)

    @rule(
        node=node,
        class_=st.sampled_from(CLASSES),
        operation=st.sampled_from([Operation.REPAIR, Operation.ROLLOUT]),
        known=st.booleans(),
        minutes=st.integers(-50, 5),
        client=st.sampled_from([None, *CLIENTS]),
    )
    def enter(
        self,
        node: str,
        class_: Disruption,
        operation: Operation,
        known: bool,
        minutes: int,
        client: str | None,
    ) -> None:
        self.number += 1
        ask = an_ask(node, class_, holder=f"job{self.number}", operation=operation)
        if client is not None:
            holder = {"kind": "Reboot", "name": "r", "uid": f"r{self.number}", "user": client}
            ask = ask.model_copy(update={"holder": Holder.model_validate(holder)})
        held = LedgerPermit(
            name=f"p{self.number}",
            node=node,
            operation=operation,
            holder=ask.holder,
            grants=[(class_, self.core.now + timedelta(minutes=minutes))],
            expires_at=self.core.now,
            scopes=self.core.control.scopes_of(ask) if known else None,
        )
        self.core.ledger.enter(held)

    def held(self, which: int) -> LedgerPermit | None:
        found = list(self.core.ledger)
        return found[which % len(found)] if found else None

    @rule(which=permit, class_=st.sampled_from(CLASSES))
    def upgrade(self, which: int, class_: Disruption) -> None:
        held = self.held(which)
        if held is not None and held.open:
            held.also |= {held.class_}
            held.unsure += 1
            self.core.ledger.grant(held, class_, self.core.now)

    @rule(which=permit, written=st.booleans())
    def settle(self, which: int, written: bool) -> None:
        held = self.held(which)
        if held is not None:
            if not written and len(held.grants) > held.unsure > 0:
                self.core.ledger.ungrant(held)
            held.unsure, held.also, held.late = 0, frozenset(), not written

    @rule(which=permit)
    def learn_scopes(self, which: int) -> None:
        held = self.held(which)
        if held is not None:
            ask = an_ask(held.node, operation=held.operation)
            held.scopes = self.core.control.scopes_of(ask) or held.scopes

    @rule(which=permit, forget=st.booleans(), revoke=st.booleans())
    def end(self, which: int, forget: bool, revoke: bool) -> None:
        held = self.held(which)
        if held is None:
            return
        if forget:
            self.core.ledger.forget(held.name)
        elif revoke and held.open:
            held.state = PermitState.REVOKED
        elif held.open:
            self.core.ledger.release(held, self.core.now)

    @rule(names=st.sets(st.sampled_from(sorted(POLICIES))))
    def govern(self, names: set[str]) -> None:
        self.policies = [POLICIES[name] for name in sorted(names)]
        self.core.census.govern(self.policies, self.core.control.fallback)
        self.dark = {name: scopes for name, scopes in self.dark.items() if name in names}

    @rule(policy=st.sampled_from(sorted(POLICIES)), scopes=st.frozensets(st.sampled_from(SCOPES)))
    def darken(self, policy: str, scopes: frozenset[str]) -> None:
        if any(each.name == policy for each in self.policies):
            self.core.census.darken(policy, scopes)
            self.dark[policy] = scopes

    @rule(minutes=st.sampled_from([-30, -1, 1, 7, 25, 90]))
    def wait(self, minutes: int) -> None:
        self.core.now += timedelta(minutes=minutes)
        self.core.census.advance(self.core.now)

    @invariant()
    def every_sum_is_that_of_a_recount(self) -> None:
        recount, counts = Recount(self.core, self.dark), self.core.control.counts
        counts.catch_up()
        held = self.held(self.number)
        for policy in (*self.policies, self.core.control.fallback):
            assert policy.spec is not None
            for index, limit in enumerate(policy.spec.limits):
                for scope in {bound.scope for bound in self._bounds(policy, index)}:
                    bound = self.core.census.coverage.bound(policy.name, index, limit, scope)
                    assert bound.classes == classes_of(limit)
                    for mine in (None, held):
                        held_by = recount.open(bound, policy, mine)
                        assert counts.used(bound, mine) == len(held_by)
                        for client in CLIENTS:
                            used = sum(each.holder.user == client for each in held_by)
                            assert counts.used_by(client, bound, mine) == used
                        if limit.rate is not None:
                            args = (policy, self.core.now, mine)
                            tokens = counts.tokens(bound, limit.rate, self.core.now, mine)
                            assert tokens == recount.tokens(bound, *args)
                    by_client = Counter(h.holder.user for h in recount.open(bound, policy, None))
                    most = max((by_client[client] for client in CLIENTS), default=0)
                    assert counts.greatest_use_by_client(bound) == most
                    assert self.core.census.tally(bound.group) == recount.tally(bound, policy)

    def _bounds(self, policy: LoadedPolicy, index: int) -> list[ScopedLimit]:
        """Of all nodes, and of those that once were there."""
        coverage = self.core.census.coverage
        places = [coverage.place(labels) for labels in LABELS]
        rulings = [r for place in places for r in (*place.rulings, place.fallback)]
        return [
            bound
            for ruling in rulings
            if ruling.policy is policy
            for bound in ruling.bounds
            if bound.key[1] == index
        ]


pytestmark = pytest.mark.exhaustive
TestCountsAreThoseOfARecount = CountsAreThoseOfARecount.TestCase
TestCountsAreThoseOfARecount.settings = settings(
    stateful_step_count=40, max_examples=25, deadline=None
)
