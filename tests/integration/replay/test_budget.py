"""Kube Defender in memory answers as Kube Defender itself does."""

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.defender_world import World, a_policy, an_ask

from kubenode.api.v1alpha1 import Disruption, Verdict
from kubenode.api.v1alpha1.defenderpolicy import Limit, LimitScope
from kubenode.api.v1alpha1.permit import Holder
from kubenode.runtime.kube.objects import Node
from simulation.replay.budget import ReplayPermitClient
from simulation.replay.clock import SetClock

NODES, ZONE = 8, "topology.kubernetes.io/zone"
POLICY = a_policy(
    Limit(scope=LimitScope.CLUSTER, max_concurrent=3, min_healthy="50%"),
    Limit(scope=LimitScope.LABEL, label=ZONE, max_concurrent=1),
    Limit.model_validate(
        {"scope": "Cluster", "classes": ["Host"], "rate": {"count": 4, "per": "1h", "burst": 2}}
    ),
)
Op = tuple[str, int, str]
ops = st.tuples(
    st.sampled_from(["ask", "ask", "ask", "release", "renew", "step", "fail", "well", "cordon"]),
    st.integers(min_value=0, max_value=NODES - 1),
    st.sampled_from(["Host", "Pods", "Node"]),
)


class Both:
    """The real one and ours, told the same."""

    def __init__(self) -> None:
        self.real = World(0, POLICY)
        self.ours = ReplayPermitClient(SetClock(self.real.clock.now()), [POLICY])
        self.last: dict[int, Node] = {}
        for n in range(NODES):
            self.node(n)

    def node(self, n: int, ready: str = "True", **spec: Any) -> None:
        self.real.node(f"n{n}", ready=ready, labels={ZONE: f"z{n % 3}"}, **spec)
        new = self.real.defender.nodes.cache[f"n{n}"]
        self.ours.node_changed(f"n{n}", self.last.get(n), new)
        self.last[n] = new

    async def do(self, op: Op) -> tuple[Any, Any]:
        what, n, class_ = op
        ask = an_ask(f"n{n}", Disruption(class_))
        match what:
            case "ask":
                real = await self.real.defender.ask(ask)
                ours = await self.ours.ask(ask)
                assert isinstance(ours, Verdict)
                return said(real), said(ours)
            case "release":
                if (permit := self.permit(ask.holder, n)) is not None:
                    await self.real.defender.release(permit)
                    await self.ours.release(permit)
            case "renew":
                if (permit := self.permit(ask.holder, n)) is not None:
                    await self.ours.renew(permit)
                    await self.real.defender.renew(permit)
            case "step":
                self.real.step(minutes=5 + n)
                self.ours._clock.set(self.real.clock.now())
            case "fail":
                self.node(n, ready="False")
            case "well":
                self.node(n)
            case _:
                self.node(n, unschedulable=True)
        return None, None

    def permit(self, holder: Holder, n: int) -> str | None:
        held = self.ours.ledger.open_of(holder, f"n{n}")
        return held.name if held is not None else None


def said(verdict: Verdict) -> tuple[Any, ...]:
    return (
        verdict.allowed,
        verdict.reason,
        verdict.permit,
        verdict.scope,
        verdict.used,
        verdict.limit,
        verdict.look_again_at,
    )


async def play(script: list[Op]) -> None:
    both = Both()
    await both.real.start()
    for op in script:
        real, ours = await both.do(op)
        assert real == ours, op


@settings(max_examples=60, deadline=None)
@given(st.lists(ops, max_size=25))
def test_the_same_verdicts_on_random_scripts(script: list[Op]) -> None:
    asyncio.run(play(script))
