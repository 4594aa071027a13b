"""Objects that an older version stored: with a field that is gone, without those that came."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.control_plane import ControlPlane
from support.remedy_cluster import RULES, Cluster, established, operating
from support.remedy_engine import a_diagnoser
from support.replicas import FAULT

from kubenode.api.crd import definition
from kubenode.api.v1alpha1 import JobPhase, NodeRemedier
from remedy.operator import RemedySettings

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]
NODE, RULE = "stored-0", "stored"
GONE = "escalateAfter"


@pytest.fixture
def older(plane: ControlPlane) -> Iterator[ControlPlane]:
    """The API server with a definition of rules that knows a field which is gone today."""
    crd = definition(NodeRemedier)
    name = crd["metadata"]["name"]
    older: dict[str, Any] = json.loads(json.dumps(crd))
    version = older["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"][GONE] = {
        "type": "string"
    }
    plane.kubectl("apply", "-f", "-", stdin=json.dumps(older))
    established(plane, [f"crd/{name}"])
    yield plane
    plane.kubectl("apply", "-f", "-", stdin=json.dumps(crd))


async def test_what_an_older_version_stored_is_read_and_acted_on(
    older: ControlPlane, cluster: Cluster
) -> None:
    await cluster.node(NODE)
    raw = await stored(cluster)
    assert raw["spec"][GONE] == "1h", "as it is kept in etcd"
    rule = NodeRemedier.from_server(json.dumps(raw).encode())
    assert not hasattr(rule.spec, GONE)
    settings = RemedySettings(accept_single_engine=True)
    async with operating(cluster.operator(a_diagnoser(), settings=settings)):
        await cluster.say(NODE, FAULT, "True")
        await cluster.wait(lambda job: job.status.phase is JobPhase.VERIFYING)
        await cluster.say(NODE, FAULT, "False")
        job = await cluster.wait(lambda job: job.status.phase.closed)
    assert job.status.phase is JobPhase.SUCCEEDED
    kept = await cluster.kube.get(f"{RULES}/{RULE}")
    assert kept["spec"][GONE] == "1h", "what is not ours to know is not ours to take away"
    assert kept["status"]


async def stored(cluster: Cluster) -> dict[str, Any]:
    """Only what a rule cannot do without, and the field that is gone; the server may take a while
    to know its new definition."""
    steps: list[dict[str, Any]] = [{"cordon": {}}]
    spec = {
        "mode": "Enforce",
        "nodes": {"all": True},
        "when": {"condition": {"type": FAULT, "status": "True"}},
        "groupWait": "0s",
        "startupGrace": "0s",
        "ladder": [{"name": "mark", "steps": steps, "verify": {"for": "1s", "settle": "0s"}}],
        GONE: "1h",
    }
    while True:
        await cluster.rule(RULE, **spec)
        raw = await cluster.kube.get(f"{RULES}/{RULE}")
        if GONE in raw["spec"]:
            return raw
        await cluster.kube.delete(f"{RULES}/{RULE}")
        await cluster.kube.clock.sleep(0.2)
