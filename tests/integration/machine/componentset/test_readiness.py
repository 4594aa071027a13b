"""A rollout with the real operator, in the eyes of the real kstatus."""

import asyncio
from pathlib import Path

import pytest
from support.components import GITOPS, require
from support.control_plane import ControlPlane
from support.gitops import compute_kstatus
from support.machine_world import until
from support.set_world import SetWorld, set_world

from kubenode.api.v1alpha1 import Machine, MachineComponent, MachineComponentSet
from kubenode.runtime.kube.paths import custom


async def _progress(world: SetWorld, kind: type, name: str) -> str:
    raw = await world.kube.get(custom(kind.resource.plural, name))  # type: ignore[attr-defined]
    return compute_kstatus([raw])[0]


@pytest.mark.timeout(300)
async def test_completed_rollout_passes_a_gate_and_a_change_closes_it(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    require(GITOPS)
    async with set_world(cluster, tmp_path, "readiness") as world:
        machines = await world.machines(2)
        component = await world.component("1")
        name = await world.set(component)
        await world.completed(component)
        expected = (
            (MachineComponentSet, name),
            (MachineComponent, component),
            *((Machine, machine) for machine in machines),
        )
        for kind, object_name in expected:

            async def is_current(kind: type = kind, object_name: str = object_name) -> bool | None:
                return await _progress(world, kind, object_name) == "Current" or None

            await until(is_current, f"{kind.__name__} {object_name} is not current")
        wait = ("wait", "--for=condition=Ready", f"machinecomponentset/{name}")
        await asyncio.to_thread(cluster.kubectl, *wait, "--timeout=60s")
        await world.change(component="none-1")
        late = await asyncio.to_thread(cluster.kubectl, *wait, "--timeout=3s", check=False)
        assert late.returncode != 0, "Ready of an older generation must not pass a gate"
        assert await _progress(world, MachineComponentSet, name) == "InProgress"
