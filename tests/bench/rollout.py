"""A rollout over a large fleet: what it costs the API server and us, and that its limits hold.

Method. A real kube-apiserver with Machines and their Nodes (which nobody changes: no kubelet, no
controller manager), the product as `kubenode run all` with Kube Defender's limits wide, and agents
that only write what agents write: a Lease and the status of their Machine. First every machine
gets the first version of all components at once, which asks for no permit. Then `--sets` of the
sets go to the second version, which restarts a service: in batches of 1, 5, 10, 50 and 100, each
machine under a permit of its own, with a second of baking. The order of components on one host is
its agent's matter and no part of this. Requests are the API server's own counters without reads
that are watches; processor time and memory are read from /proc. Agents, API server and the product
share the cores.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from bench.first_heal import KUBENODE, is_ready, node_list, program, requests, say, wide_limits
from bench.processes import usage
from support.component_agents import ComponentAgents
from support.control_plane import ControlPlane
from support.daemons import free_port

from kubenode.api.v1alpha1 import Machine
from kubenode.api.v1alpha1.machinework import ChangeClass
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.official import connect
from kubenode.runtime.kube.paths import custom, node, nodes
from machine.machine.success import applied, status_of

FLEET = {"fleet": "bench"}
GROWING = {"batches": [1, 5, 10, 50, 100], "bakeTime": "1s", "maxUnavailable": "10%"}
AT_ONCE = {"batches": ["100%"], "bakeTime": "0s", "maxUnavailable": "100%"}
KINDS = ("machines", "machinecomponents", "machinecomponentsets", "permits", "events", "leases",
         "defenderpolicies", "secrets")  # fmt: skip
"""Of which leases and `machines/status` are the agents' too."""
LIMIT = 7200.0
WIDTH = 32
AGENT_SECONDS = 0.2
"""That a change takes on a host."""


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--machines", type=int, default=300, metavar="N")
    parser.add_argument("--components", type=int, default=12, metavar="N", help="of each machine")
    parser.add_argument("--sets", type=int, default=1, metavar="N", help="that are rolled out")


def figures(chosen: argparse.Namespace) -> dict[str, Any]:
    with (
        ControlPlane(controllers=False, scheduler=False) as plane,
        tempfile.TemporaryDirectory(prefix="kubenode-bench-") as folder,
    ):
        subprocess.run(
            [KUBENODE, "install", "--kubeconfig", str(plane.kubeconfig)],
            check=True,
            stdout=sys.stderr,
        )
        return asyncio.run(_figures(plane, Path(folder), chosen))


def component(family: str, version: int) -> dict[str, Any]:
    package = {"name": family, "version": f"{version}.0-1"}
    return {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "MachineComponent",
        "metadata": {"name": f"{family}-{version}"},
        "spec": {
            "component": family,
            "version": f"{version}.0",
            "source": {"type": "apt", "apt": {"packages": [package]}},
            "files": [
                {"path": f"/etc/{family}.conf", "content": {"inline": "node = ${machine.node}\n"}}
            ],
        },
    }


def component_set(family: str) -> dict[str, Any]:
    return {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "MachineComponentSet",
        "metadata": {"name": family},
        "spec": {
            "selector": {"matchLabels": FLEET},
            "component": f"{family}-1",
            "updateStrategy": AT_ONCE,
        },
    }


def machine(name: str, number: int) -> dict[str, Any]:
    return {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "Machine",
        "metadata": {"name": name, "labels": FLEET},
        "spec": {
            "addresses": [f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"],
            "failureDomain": f"zone-{number % 3}",
        },
    }


class Eyes:
    """Counts machines that may be disturbed at one instant, as a watch shows them."""

    def __init__(self, agents: ComponentAgents) -> None:
        self.most = 0
        self._down: set[str] = set()
        agents.machines.add_handler(self._changed)

    def _changed(self, name: str, old: Machine | None, new: Machine | None) -> None:
        if new is not None and new.spec.permit is not None and not _done(new):
            self._down.add(name)
        else:
            self._down.discard(name)
        self.most = max(self.most, len(self._down))


def _done(machine: Machine) -> bool:
    """Whether all that its permit is for is there."""
    allowed = machine.spec.permit.components if machine.spec.permit is not None else ()
    entries = (entry for entry in machine.spec.components if entry.name in allowed)
    return all(applied(entry, status_of(machine, entry.name)) for entry in entries)


async def _figures(plane: ControlPlane, folder: Path, chosen: argparse.Namespace) -> dict[str, Any]:
    kube = Kube(connect(str(plane.kubeconfig)), rate=5000, burst=10000)
    families = [f"c{number:02d}" for number in range(chosen.components)]
    try:
        await _make(kube, chosen.machines, families)
        agents = ComponentAgents(
            kube,
            delay=AGENT_SECONDS,
            beat=max(10.0, chosen.machines / 150),
            needs=lambda name: ChangeClass.RESTART if name.endswith("-2") else None,
            workers=64,
        )
        eyes, port = Eyes(agents), free_port()
        arguments = [
            KUBENODE, "run", "all", "--kubeconfig", str(plane.kubeconfig), "--health-port",
            str(port), "--no-lease", "--audit-file", "",
        ]  # fmt: skip
        async with asyncio.TaskGroup() as tasks:
            beating = tasks.create_task(agents.run())
            began = time.monotonic()
            with program(arguments, partial(is_ready, port), folder / "all.log") as product:
                found = {
                    "machines": chosen.machines,
                    "components": chosen.components,
                    "sets": chosen.sets,
                    "ready_seconds": round(time.monotonic() - began, 1),
                }
                first = partial(_completed, kube, families, 1)
                found["install"] = await _phase(plane, product.pid, chosen.machines, first)
                rolled = families[: chosen.sets]
                for family in rolled:
                    spec = {"component": f"{family}-2", "updateStrategy": GROWING}
                    await kube.patch(custom("machinecomponentsets", family), {"spec": spec})
                second = partial(_completed, kube, rolled, 2)
                found["rollout"] = await _phase(plane, product.pid, chosen.machines, second)
                found["most_unavailable"] = eyes.most
                found["allowed_unavailable"] = chosen.machines // 10 * chosen.sets
            beating.cancel()
    finally:
        await kube.close()
    return found


async def _make(kube: Kube, machines: int, families: list[str]) -> None:
    say(f"making {machines} machines")
    await kube.create(custom("defenderpolicies"), wide_limits())
    for family in families:
        for version in (1, 2):
            await kube.create(custom("machinecomponents"), component(family, version))
    waiting = asyncio.Semaphore(WIDTH)

    async def one(number: int, body: dict[str, Any]) -> None:
        name = body["metadata"]["name"]
        ready = {"type": "Ready", "status": "True", "reason": "Bench"}
        async with waiting:
            await kube.create(nodes(), body)
            await kube.patch(node(name, "status"), {"status": {"conditions": [ready]}})
            await kube.create(custom("machines"), machine(name, number))
            granted = {"certificateExpiresAt": "2099-01-01T00:00:00Z"}
            await kube.patch(custom("machines", name, "status"), {"status": {"bootstrap": granted}})

    async with asyncio.TaskGroup() as tasks:
        for number, body in enumerate(node_list(machines)["items"]):
            body["metadata"].pop("annotations", None)
            tasks.create_task(one(number, body))
    for family in families:
        await kube.create(custom("machinecomponentsets"), component_set(family))


async def _completed(kube: Kube, families: list[str], version: int) -> bool:
    answer = await kube.get(custom("machinecomponentsets"))
    sets = {item["metadata"]["name"]: item for item in answer["items"]}
    phases = []
    for family in families:
        status = sets[family].get("status", {})
        wanted = sets[family]["spec"]["component"] == f"{family}-{version}"
        seen = status.get("observedGeneration") == sets[family]["metadata"]["generation"]
        done = seen and status.get("currentRevision") == status.get("updateRevision")
        phases.append((status.get("phase"), wanted and done))
        if status.get("phase") == "Paused":
            raise SystemExit(f"{family} stopped: {json.dumps(status, indent=1)}")
    return all(phase == ("Completed", True) for phase in phases)


async def _phase(plane: ControlPlane, pid: int, machines: int, done: Any) -> dict[str, Any]:
    """What it took until `done`."""
    before, asked, began = usage(pid), requests(plane, KINDS), time.monotonic()
    told = began
    while not await done():
        if time.monotonic() > began + LIMIT:
            raise SystemExit(f"not within {LIMIT:g} s")
        if time.monotonic() > told + 30:
            told = time.monotonic()
            say(f"{told - began:.0f} s, {usage(pid).rss >> 20} MiB")
        await asyncio.sleep(1.0)
    after, made = usage(pid), requests(plane, KINDS) - asked
    return {
        "seconds": round(time.monotonic() - began, 1),
        "requests_per_machine": round(made.total() / machines, 1),
        "requests": {key: count for key, count in made.most_common(12)},
        "processor_ms_per_machine": round((after.cpu - before.cpu) * 1000 / machines, 1),
        "resident_mib": after.rss >> 20,
    }
