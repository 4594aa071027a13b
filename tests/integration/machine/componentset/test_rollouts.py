"""Rollouts on a real API server, our operator under its rights, agents that only write status."""

from pathlib import Path

import pytest
from support.control_plane import ControlPlane
from support.machine_world import until
from support.set_world import condition, set_world

from kubenode.cli.component_hold import hold_command, resume_command
from kubenode.cli.exits import Refusal
from kubenode.runtime.kube.paths import custom


async def test_a_set_installs_upgrades_and_completes(cluster: ControlPlane, tmp_path: Path) -> None:
    async with set_world(cluster, tmp_path, "up") as world:
        machines = await world.machines(5)
        first, second = await world.component("1.0.0"), await world.component("1.1.0")
        await world.set(first)
        done = await world.completed(first)
        assert done.status.counts.updated == done.status.counts.healthy == 5
        await world.change(component=second)
        done = await world.completed(second)
        assert [v.version for v in done.status.versions] == ["1.1.0"]
        assert {world.has(name) for name in machines} == {second}
        order = [name for name, component, _ in world.agents.acted if component == second]
        assert sorted(order) == sorted(machines), "each once"


async def test_f30_bad_version_stops_at_the_first_machine_until_a_person_lets_it_go_on(
    cluster: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with set_world(cluster, tmp_path, "bad") as world:
        machines = await world.machines(4)
        good, bad = await world.component("1.0.0"), await world.component("2.0.0")
        await world.set(good)
        await world.completed(good)
        world.agents.bad.add(bad)
        await world.change(component=bad)
        stopped = await world.when(
            lambda s: condition(s, "Paused")[1] == "AutoPaused", "it does not stop"
        )
        (touched,) = [name for name in machines if world.has(name) == bad]
        assert stopped.status.batch is not None and stopped.status.batch.failed == [touched]
        assert touched in condition(stopped, "Paused")[2]

        world.agents.bad.clear()
        await resume_command("bad", str(cluster.kubeconfig), None)
        told = capsys.readouterr().err
        assert f"it stopped by itself, AutoPaused: batch 1 failed: {touched}" in told
        assert f"goes on: batch 1 tries {touched} once more" in told
        assert not (await world.completed(bad)).spec.paused
        await resume_command("bad", str(cluster.kubeconfig), None)
        assert "was not held: nothing changes" in capsys.readouterr().err
        await hold_command("bad", {"frozen": True}, str(cluster.kubeconfig), None)
        await resume_command("bad", str(cluster.kubeconfig), None)
        assert "goes on: frozen no more" in capsys.readouterr().err
        with pytest.raises(Refusal, match="component sets` lists"):
            await resume_command("none", str(cluster.kubeconfig), None)


async def test_f34_a_deleted_set_uninstalls_first_and_takes_its_permits_back(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    async with set_world(cluster, tmp_path, "gone") as world:
        machines = await world.machines(3)
        first = await world.component("1.0.0")
        await world.set(first, onUnselect="Uninstall")
        await world.completed(first)
        await world.kube.delete(custom("machinecomponentsets", "gone"))

        async def clean() -> bool:
            found = [await world.world.machine(name) for name in machines]
            return all(not m.spec.components and m.spec.permit is None for m in found)

        await until(clean, "components are left")
        await until(lambda: world.gone("machinecomponentsets", "gone"), "the set is there")
        await world.kube.delete(custom("machinecomponents", first))
        await until(lambda: world.gone("machinecomponents", first), "the component is there")


async def test_what_leaves_a_set_is_orphaned_and_another_set_takes_it(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    async with set_world(cluster, tmp_path, "two") as world:
        machines = await world.machines(2)
        first = await world.component("1.0.0")
        await world.set(first)
        await world.completed(first)
        await world.set(first, name="two-later")
        later = await world.when(
            lambda s: condition(s, "Degraded")[1] == "Conflict", "no conflict", "two-later"
        )
        assert machines[0] in condition(later, "Degraded")[2]
        acted = len(world.agents.acted)
        await world.kube.delete(custom("machinecomponentsets", "two"))

        async def taken() -> bool:
            found = [await world.world.machine(name) for name in machines]
            return all(m.spec.components[0].set == "two-later" for m in found)

        await until(taken, "nobody took them")
        await world.when(
            lambda s: s.status.counts.healthy == 2, "two-later is not content", "two-later"
        )
        assert len(world.agents.acted) == acted, "no service restarted for another owner"


async def test_components_are_counted_checked_and_kept(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    async with set_world(cluster, tmp_path, "kept") as world:
        await world.machines(2)
        first = await world.component("1.0.0")
        bad = await world.component("2.0.0", text="${machine.colour}")
        await world.set(first)
        await world.completed(first)
        path = custom("machinecomponents", first)

        async def counted() -> bool:
            status = (await world.kube.get(path))["status"]
            return bool(status.get("machines") == 2 and status.get("sets") == ["kept"])

        await until(counted, "not counted")
        said = (await world.kube.get(custom("machinecomponents", bad)))["status"]["conditions"][0]
        assert (said["status"], said["reason"]) == ("False", "BadTemplate")
        await world.kube.delete(path)
        assert "deletionTimestamp" in (await world.kube.get(path))["metadata"]
