"""A repair replaces a machine: Remedy operator, Machine operator and Kube Defender together.

Each is real and runs under its own rights; the cloud is in memory.
"""

from pathlib import Path
from typing import Any

from support.control_plane import ControlPlane
from support.defender_world import a_policy
from support.defending import defending, repairing
from support.machine_sets import a_set, site
from support.machine_world import until
from support.remedy_cluster import Cluster, connected

from kubenode.api.v1alpha1 import Disruption, JobPhase
from kubenode.api.v1alpha1.defenderpolicy import Limit, LimitScope, PerNode
from kubenode.api.v1alpha1.permit import Operation
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.paths import custom

BROKEN = "DiskBroken"
RULE = {
    "mode": "Enforce",
    "faultClass": "broken_disk",
    "nodes": {"all": True},
    "when": {"condition": {"type": BROKEN, "status": "True"}},
    "groupWait": "0s",
    "startupGrace": "0s",
    "ladder": [
        {
            "name": "replace",
            "steps": [
                {"cordon": {}},
                {"migrate": {}},
                {"replace": {"via": ["Machine"], "timeout": "5m"}},
            ],
            "verify": {"for": "1s", "timeout": "5m"},
        }
    ],
}


async def permits(hands: Cluster, nodes: set[str]) -> list[dict[str, Any]]:
    """Of these nodes: those of earlier tests may still be there."""
    found = (await hands.kube.get(custom("permits")))["items"]
    return [permit for permit in found if permit["spec"]["nodeName"] in nodes]


async def test_a_job_asks_for_another_machine_by_operation_and_its_permit_is_the_only_one(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    limit = Limit(
        scope=LimitScope.CLUSTER,
        max_concurrent=1,
        classes=[Disruption.HOST, Disruption.PODS, Disruption.NODE],
    )
    policy = a_policy(limit, per_node=PerNode(max_acts=1000))
    async with (
        connected(cluster) as hands,
        defending(cluster, hands, policy) as defender,
        repairing(cluster, defender),
        site(cluster, tmp_path, defender=defender) as here,
    ):
        await here.make(a_set("again", 2))
        await here.counts("again", replicas=2, ready=2, available=2, up_to_date=2, made=2)
        old, other = await here.names("again")
        await hands.rule("broken", **RULE)
        await hands.say(old, BROKEN, "True")
        job = await hands.wait(lambda j: j.spec.node_name == old and j.status.phase.closed, 120)
        assert job.status.phase is JobPhase.SUCCEEDED, job.status.message
        await here.counts("again", replicas=2, ready=2, available=2, made=3)
        names = await here.names("again")
        assert old not in names and other in names and len(names) == 2
        assert job.status.steps[-1].message.endswith(" through Machine")
        assert len(here.cloud.instances) == 2 and len(here.cloud.deleted) == 1
        mine = {old, other, *names}
        found = await permits(hands, mine)
        operations = {(p["spec"]["operation"], p["spec"]["holder"]["kind"]) for p in found}
        assert operations <= {(Operation.REPAIR, "RemedyOperationJob")}, "its permit was enough"

        async def over() -> bool:
            nodes = {n["metadata"]["name"] for n in (await hands.kube.get(paths.nodes()))["items"]}
            left = await permits(hands, mine)
            return mine & nodes == set(names) and all(
                p["status"]["state"] != "Granted" for p in left
            )

        await until(over, "the old node, or a permit, is left")
