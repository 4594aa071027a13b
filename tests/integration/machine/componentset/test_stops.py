"""What holds a rollout, stops it or takes it back, on a real API server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.control_plane import ControlPlane
from support.remedy_cluster import connected, kubelets
from support.running import running as in_background
from support.set_world import QUICK, SetWorld, condition, set_world

from kubenode.cli.component_hold import resume_command
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube.paths import resource
from machine.componentset import access, controller

NAMESPACE = "kubenode-components"


async def test_invariant_09_a_bad_version_is_rolled_back_by_policy_and_not_tried_again(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    async with set_world(cluster, tmp_path, "back") as world:
        machines = await world.machines(3)
        good, bad = await world.component("1.0.0"), await world.component("2.0.0")
        strategy = {**QUICK, "failurePolicy": "Rollback", "batches": [2]}
        await world.set(good, updateStrategy=strategy)
        proven = (await world.completed(good)).status.current_revision
        world.agents.bad.add(bad)
        await world.change(component=bad)
        back = await world.when(
            lambda s: s.status.phase == "Idle" and bool(s.status.rejected_revision), "no way back"
        )
        assert back.status.current_revision == proven
        assert back.status.rejected_revision == back.status.update_revision != proven
        assert condition(back, "Degraded")[1] == "RolledBack"
        assert "ask for another" in condition(back, "Degraded")[2]
        found = [await world.world.machine(name) for name in machines]
        assert {m.spec.components[0].revision for m in found} == {proven}
        assert {m.status.components[0].version for m in found} == {"1.0.0"}
        touched = {name for name, component, _ in world.agents.acted if component == bad}
        assert 1 <= len(touched) <= 2, "the second batch never began"
        await world.change(paused=True)
        await world.change(paused=False)
        again = await world.when(
            lambda s: s.status.observed_generation == s.metadata.generation, "not looked at"
        )
        assert again.status.rejected_revision == back.status.rejected_revision
        assert {world.has(name) for name in machines} == {good}


async def test_f41_nothing_starts_while_the_window_is_closed(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    async with set_world(cluster, tmp_path, "window") as world:
        machines = await world.machines(2)
        first, second = await world.component("1.0.0"), await world.component("1.1.0")
        await world.set(first)
        await world.completed(first)
        closed = {"days": [_in_three_days()], "from": "10:00", "to": "11:00", "timeZone": "UTC"}
        await world.change(component=second, updateStrategy={**QUICK, "window": closed})
        waits = await world.when(
            lambda s: condition(s, "Progressing")[1] == "WindowClosed", "it does not wait"
        )
        assert condition(waits, "Progressing")[0] == "False"
        assert {world.has(name) for name in machines} == {first}
        assert second not in {component for _, component, _ in world.agents.acted}
        await world.change(updateStrategy={"window": None})
        await world.completed(second)


def _in_three_days() -> str:
    return f"{SystemClock().now() + timedelta(days=3):%a}"


async def test_a_batch_that_fails_its_inspection_stops_until_a_person_lets_it_go_on(
    cluster: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check = {"type": "Smoke", "status": "True"}
    inspection = {
        "interval": "1s",
        "inconclusiveLimit": 100,
        "checks": [{"name": "smoke", "type": "NodeCondition", "nodeCondition": check}],
    }
    async with connected(cluster) as nodes:
        machines = ["smoke-m0", "smoke-m1"]
        for name in machines:
            await nodes.node(name)
            await nodes.say(name, "Smoke", "True")
        async with (
            in_background(kubelets(nodes, machines)),
            set_world(cluster, tmp_path, "smoke", needs=lambda component: None) as world,
        ):
            assert machines == await world.machines(2, node="Expected")
            first, second = await world.component("1.0.0"), await world.component("1.1.0")
            await world.set(first, updateStrategy={**QUICK, "inspection": inspection})
            await world.completed(first)
            # Only Machines whose Nodes have joined can pass the first rollout's inspection.
            assert all([(await world.world.machine(n)).status.node_ref for n in machines])
            for name in machines:
                await nodes.say(name, "Smoke", "False")
            await world.change(component=second)
            stopped = await world.when(
                lambda s: condition(s, "Paused")[1] == "InspectionFailed", "it does not stop"
            )
            (touched,) = [name for name in machines if world.has(name) == second]
            told = f"batch 1: smoke: Smoke of node {touched} is False, not True"
            assert told in condition(stopped, "Paused")[2]
            for name in machines:
                await nodes.say(name, "Smoke", "True")
            await resume_command("smoke", str(cluster.kubeconfig), None)
            await world.completed(second)
            assert "goes on with batch 1" in capsys.readouterr().err


async def test_texts_by_reference_make_revisions_and_no_secret_is_told(
    cluster: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (access, controller):
        monkeypatch.setattr(module, "FRESH_SECONDS", 1.0)
    async with texts(cluster) as kube, set_world(cluster, tmp_path, "texts") as world:
        machines = await world.machines(2)
        files = [
            {
                "path": "/etc/texts/plain",
                "content": {"configMapKey": {"name": "texts", "key": "k"}},
            },
            {"path": "/etc/texts/secret", "content": {"secretKey": {"name": "texts", "key": "s"}}},
        ]
        first = await world.component("1.0.0", files=files)
        await world.set(first)
        waits = await world.when(
            lambda s: condition(s, "Degraded")[1] == "MissingComponent", "nothing is missing"
        )
        assert "ConfigMap texts, key k is not in namespace" in condition(waits, "Degraded")[2]
        await kube.text("configmaps", data={"k": "one"})
        await kube.text("secrets", stringData={"s": "hunter2"})
        one = await world.completed(first)
        hashes = await _hashes(world, machines)
        await kube.edit("secrets", stringData={"s": "hunter3"})
        two = await world.when(
            lambda s: s.status.current_revision not in ("", one.status.current_revision),
            "an edited Secret is no revision",
        )
        assert {r.component for r in two.status.revisions} == {first}
        assert hashes != await _hashes(world, machines)
        told = [two.to_dict(), *[(await world.world.machine(m)).to_dict() for m in machines]]
        assert "hunter" not in str(told), "a secret is in what everybody may read"


async def _hashes(world: SetWorld, machines: list[str]) -> set[str]:
    found = [await world.world.machine(name) for name in machines]
    return {m.spec.components[0].config_hash for m in found}


class Texts:
    """A person's hands on the ConfigMap and the Secret `texts`."""

    def __init__(self, kube: Any) -> None:
        self._kube = kube

    async def text(self, plural: str, **content: Any) -> None:
        path = resource("/api/v1", plural, namespace=NAMESPACE)
        await self._kube.create(path, {"metadata": {"name": "texts"}, **content})

    async def edit(self, plural: str, **content: Any) -> None:
        path = resource("/api/v1", plural, namespace=NAMESPACE, name="texts")
        await self._kube.patch(path, content)


@asynccontextmanager
async def texts(cluster: ControlPlane) -> AsyncIterator[Texts]:
    async with connected(cluster) as found:
        yield Texts(found.kube)
        for plural in ("configmaps", "secrets"):
            await found.kube.delete(resource("/api/v1", plural, namespace=NAMESPACE, name="texts"))
