"""`kubenode component plan` on a real API server: what it foretells happens; it writes nothing."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.control_plane import ControlPlane
from support.set_world import SetWorld, set_world

from kubenode.cli.component_plan import plan_command
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.options import ReportFormat
from kubenode.runtime.kube.paths import custom


class Planner:
    """A person with the right to look, and to read the texts of components."""

    def __init__(self, world: SetWorld, kubeconfig: str, out: pytest.CaptureFixture[str]) -> None:
        self._world, self._kubeconfig, self._out = world, kubeconfig, out

    async def plan(self, component: str = "", *values: str) -> tuple[Exit, dict[str, Any]]:
        self._out.readouterr()
        ended = await plan_command(
            self._world.tag, component, values, ReportFormat.JSON, self._kubeconfig, None
        )
        return ended, json.loads(self._out.readouterr().out)

    async def told(self, component: str) -> str:
        self._out.readouterr()
        await plan_command(
            self._world.tag, component, (), ReportFormat.TABLE, self._kubeconfig, None
        )
        return self._out.readouterr().out


def kubeconfig(cluster: ControlPlane) -> str:
    who = "plans-rollouts"
    cluster.kubectl("apply", "-f", Path(__file__).parents[4] / "charts/kubenode/people.yaml")
    cluster.kubectl(
        "create", "clusterrolebinding", who, "--clusterrole=kubenode-viewer", f"--user={who}"
    )
    return str(cluster.kubeconfig_for(who))


async def orphan(world: SetWorld, machine: str, family: str, component: str) -> list[Any]:
    """A component that no set gives; what the machine had before."""
    before = [each.to_dict() for each in (await world.world.machine(machine)).spec.components]
    hashes = {"revision": "1-0000000000", "configHash": "1-0000000000"}
    await assign(world, machine, [*before, {"name": family, "component": component, **hashes}])
    return before


async def assign(world: SetWorld, machine: str, components: list[Any]) -> None:
    await world.kube.patch(custom("machines", machine), {"spec": {"components": components}})


async def test_what_a_plan_foretells_happens_and_a_plan_changes_nothing(
    cluster: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    looks = kubeconfig(cluster)
    try:
        async with set_world(cluster, tmp_path, "plan") as world:
            machines = await world.machines(4)
            first = await world.component("1.0.0", disruption={"major": "Drain"})
            second = await world.component("2.0.0", disruption={"major": "Drain"})
            await world.set(first)
            await world.completed(first)
            planner = Planner(world, looks, capsys)

            ended, found = await planner.plan()
            assert (ended, found["stages"], found["warnings"]) == (Exit.FINE, [], [])

            ended, found = await planner.plan("plan-9.9.9")
            assert ended is Exit.FINDING and "MissingComponent" in found["warnings"][0]

            mine = {"path": "/etc/plan.conf", "content": {"inline": "y"}}
            rival = await world.component("1.0.0-rival", component="rival", files=[mine])
            had = await orphan(world, machines[0], "rival", rival)
            ended, found = await planner.plan("", "x=2")
            assert ended is Exit.FINDING
            assert found["warnings"][0].startswith(f"FileConflict on {machines[0]}: /etc/plan.conf")
            blocked = {m["machine"]: m["blocked"] for s in found["stages"] for m in s["machines"]}
            assert [name for name, why in blocked.items() if why] == [machines[0]]
            await assign(world, machines[0], had)
            ended, found = await planner.plan("", "x=2")
            assert ended is Exit.FINE
            classes = {each["class"] for stage in found["stages"] for each in stage["machines"]}
            assert classes == {"Drain"}, "a file is changed: the default of onChange"

            before = (await world.now()).metadata.resource_version
            ended, found = await planner.plan(second)
            assert ended is Exit.FINE
            stages = [
                (stage["batch"], [each["machine"] for each in stage["machines"]])
                for stage in found["stages"]
            ]
            assert [(index, len(names)) for index, names in stages] == [(1, 1), (2, 2), (3, 1)]
            each = found["stages"][0]["machines"][0]
            assert (each["from"], each["class"], each["needs"]) == (first, "Drain", "permit, drain")
            assert found["now"]["starts"] == stages[0][1]
            text = await planner.told(second)
            assert "permit, drain" in text and all(name in text for name in machines)
            assert (await world.now()).metadata.resource_version == before
            assert {world.has(name) for name in machines} == {first}

            await world.change(component=second)
            await world.completed(second)
            acted = [name for name, component, _ in world.agents.acted if component == second]
            went = iter(acted)
            for _, names in stages:
                assert {next(went) for _ in names} == set(names)

            with pytest.raises(Refusal, match="component sets` lists"):
                await plan_command("none", "", (), ReportFormat.JSON, looks, None)
            with pytest.raises(Refusal, match="write NAME=VALUE"):
                await planner.plan("", "x")
    finally:
        cluster.kubectl("delete", "clusterrolebinding", "plans-rollouts")
