"""A policy that this version cannot read refuses what it covers, and nothing else."""

import json
from typing import Any

import pytest
from support.defender_world import POLICIES, World, a_policy, an_ask

from defender.decision.policies import read_policy
from kubenode.api.v1alpha1 import Reason

POOL = "kubenode.io/pool"


def of_later_version(nodes: Any) -> dict[str, Any]:
    policy = a_policy(name="gpu").to_dict()
    policy["spec"]["nodes"] = nodes
    policy["spec"]["limits"] = [{"scope": "Continent", "maxConcurrent": 1}]
    return policy


async def test_an_unreadable_policy_refuses_only_the_nodes_that_it_selects() -> None:
    world = World(4, a_policy())
    world.node("g0", labels={POOL: "gpu"})
    world.api.put(POLICIES, of_later_version({"selector": {"matchLabels": {POOL: "gpu"}}}))
    defender = await world.start()
    assert (await defender.ask(an_ask("g0"))).reason is Reason.POLICY_INVALID
    assert (await defender.ask(an_ask("n0"))).allowed


@pytest.mark.parametrize("nodes", [{"all": True}, {}, None, 3, {"selector": {"later": 1}}])
async def test_a_policy_whose_selection_cannot_be_read_refuses_every_node(nodes: Any) -> None:
    policy = read_policy(json.dumps(of_later_version(nodes)).encode())
    assert policy.spec is None
    assert policy.covers({})
    assert policy.covers({POOL: "gpu"})
