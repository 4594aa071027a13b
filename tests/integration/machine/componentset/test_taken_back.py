"""A repair takes a component back: Remedy operator, Machine operator and Kube Defender together.

Each is real and runs under its own rights; the agents only write status.
"""

from pathlib import Path

from support.control_plane import ControlPlane
from support.defender_world import a_policy
from support.defending import defending, repairing
from support.machine_world import until
from support.remedy_cluster import Cluster, connected
from support.set_world import QUICK, condition, set_world

from kubenode.api.v1alpha1 import Disruption, JobPhase, RemedyOperationJob
from kubenode.api.v1alpha1.defenderpolicy import Limit, LimitScope, PerNode
from kubenode.api.v1alpha1.machinework import ChangeClass
from kubenode.runtime.components.rollback import rollback_in
from kubenode.runtime.kube.paths import custom

SICK = "ComponentSick"
NODES = ["taken-m0", "taken-m1"]
RULE = {
    "mode": "Enforce",
    "faultClass": "bad_component",
    "nodes": {"selector": {"matchLabels": {"taken": "back"}}},
    "when": {"condition": {"type": SICK, "status": "True"}},
    "groupWait": "0s",
    "startupGrace": "0s",
    "ladder": [
        {
            "name": "back",
            "steps": [{"rollbackComponent": {"component": "taken", "timeout": "5m"}}],
            "verify": {"for": "1s", "timeout": "5m"},
        }
    ],
}


async def test_a_job_takes_a_component_back_under_its_own_permit_and_the_next_revision_goes_out(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    classes = [Disruption.HOST, Disruption.PODS, Disruption.NODE]
    limit = Limit(scope=LimitScope.CLUSTER, max_concurrent=1, classes=classes)
    policy = a_policy(limit, per_node=PerNode(max_acts=1000))
    async with (
        connected(cluster) as hands,
        defending(cluster, hands, policy, NODES) as defender,
        repairing(cluster, defender),
        set_world(
            cluster,
            tmp_path,
            "taken",
            permits=defender,
            needs=lambda component: ChangeClass.RESTART,
        ) as world,
    ):
        assert await world.machines(2, node="Expected") == NODES
        first, second = await world.component("1.0.0"), await world.component("1.1.0")
        third = await world.component("1.2.0")
        await world.set(first, updateStrategy={**QUICK, "batches": [1]})
        await world.completed(first)
        await world.change(component=second)
        await world.completed(second)

        await _fall_ill(hands, NODES[0])
        await hands.rule("taken", **RULE)
        job = await hands.wait(lambda j: _step(j) == "Done", 90)
        assert job.spec.node_name == NODES[0]
        assert (world.has(NODES[0]), world.has(NODES[1])) == (first, second)
        machine = await world.world.machine(NODES[0])
        assert machine.status.components[0].version == "1.0.0"
        wish = rollback_in(machine.metadata.annotations, "taken")
        assert wish is not None and job.status.permit is not None
        assert (wish.job, wish.permit) == (job.metadata.name, job.status.permit.name)
        await hands.say(NODES[0], SICK, "False")
        closed = await hands.wait(lambda j: j.status.phase is JobPhase.SUCCEEDED, 90)
        assert closed.metadata.name == job.metadata.name
        done = await world.now()
        assert done.spec.component == second and condition(done, "Paused")[0] == "False"

        await world.change(component=third)
        await world.completed(third)
        assert {world.has(name) for name in NODES} == {third}

        async def free() -> bool:
            found = [await world.world.machine(name) for name in NODES]
            wishes = [rollback_in(m.metadata.annotations, "taken") for m in found]
            return not any(wishes) and all(m.spec.permit is None for m in found)

        await until(free, "the job's wish, or a permit, is left")
        await _all_given_back(hands)


def _step(job: RemedyOperationJob) -> str:
    """State of the step, "" where it has not begun."""
    steps = job.status.steps
    return next((str(s.state) for s in steps if s.name == "rollbackComponent"), "")


async def _fall_ill(hands: Cluster, node: str) -> None:
    await hands.kube.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {"taken": "back"}}})
    await hands.say(node, SICK, "True")


async def _all_given_back(hands: Cluster) -> None:
    async def look() -> bool:
        found = (await hands.kube.get(custom("permits")))["items"]
        return all(p["status"].get("state") != "Granted" for p in found)

    await until(look, "a permit is held")
