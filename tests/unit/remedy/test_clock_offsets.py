"""The fact node.clockOffset: what agents measure and write into their Leases."""

from typing import Any

import msgspec
import pytest
from support.clock import T0
from support.remedy_facts import a_node, a_rule

from kubenode.runtime.kube.objects import Node
from remedy.remedier.clockoffsets import CLOCK_OFFSET, ClockOffsets
from remedy.remedier.leases import Renewal, decode_renewal

NODE: Node = a_node("n1", T0)


def a_lease(offset: str | None = None) -> Renewal:
    annotations = {"kubenode.io/boot-id": "b"}
    said: dict[str, Any] = {**annotations, "kubenode.io/clock-offset": offset}
    metadata = {"name": "n1", "annotations": said if offset is not None else annotations}
    return decode_renewal(msgspec.json.encode({"metadata": metadata, "spec": {}}))


class Agents:
    """One agent's Lease and how long ago it was renewed."""

    def __init__(self, offset: str | None, age: float | None = 5.0) -> None:
        self.lease, self.seconds = a_lease(offset), age

    def get(self, key: str) -> Renewal | None:
        return self.lease if key == "kubenode-agents/n1" else None

    def age(self, name: str) -> float | None:
        return self.seconds


def offset_of(agents: Agents) -> float | None:
    return ClockOffsets(agents, agents, lambda node: node.metadata.name).of(NODE)


@pytest.mark.parametrize(("said", "seconds"), [("7200", 7200.0), ("-7200", -7200.0), ("0", 0.0)])
def test_offset_is_what_the_agent_says(said: str, seconds: float) -> None:
    assert offset_of(Agents(said)) == seconds


@pytest.mark.parametrize("said", [None, "", "fast", "nan", "inf", "1e300"])
def test_offset_is_unknown_when_the_agent_says_nothing_that_makes_sense(said: str | None) -> None:
    assert offset_of(Agents(said)) is None


@pytest.mark.parametrize("age", [None, 41.0])
def test_offset_is_unknown_when_the_agent_is_silent(age: float | None) -> None:
    assert offset_of(Agents("7200", age)) is None


def test_node_is_looked_at_again_when_its_offset_passes_what_a_rule_compares_with() -> None:
    woken: list[str] = []
    agents = Agents(None)
    offsets = ClockOffsets(agents, agents, lambda node: node.metadata.name, woken.append)
    offsets.changed("n1", a_lease("0"), a_lease("900"))
    assert woken == [], "no rule asks"
    ahead = {"fact": {"name": CLOCK_OFFSET, "above": 30}}
    behind = {"fact": {"name": CLOCK_OFFSET, "below": -30}}
    offsets.rules_loaded([a_rule("clock", when={"any": [ahead, behind]})])
    for old, new in (("0", "29"), ("29", "31"), ("31", "900"), ("900", "-31"), ("-31", None)):
        offsets.changed("n1", a_lease(old), a_lease(new))
    assert woken == ["n1"] * 3
