"""Acts on the real ports of components. Runs in a disposable host, sandboxed as the agent is.

    component_host.py REQUEST ANSWER   both files of JSON; each request is taken and answered

REQUEST: {"act": stage|apply|look|remove|watch|contract, "form": a Form, "limit": seconds}
"""

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
from hosts.component_contract import Given, contract

from agent.components.drift.compare import drifted
from agent.components.drift.observe import paths, read_host_state
from agent.components.files.placement import put, take_away
from agent.components.ports import ComponentPorts
from agent.components.sources import source_of
from agent.components.units import let_go, settle
from agent.host import HostError
from agent.host.files import HostRoot
from agent.host.real.components.build import real_components
from agent.host.systemd import SystemdHost
from kubenode.runtime.components.change import ComponentForm

STATE = "/var/lib/kubenode-agent"


async def act(asked: dict[str, Any]) -> Any:
    root = HostRoot(os.environ.get("KUBENODE_AGENT_HOST_ROOT", "/"))
    ports = real_components(SystemdHost(root.bus_address()), STATE, root.root, "amd64")
    if asked["act"] == "contract":
        return await contract(ports, Given(**asked["given"]))
    form = msgspec.convert(asked["form"], ComponentForm)
    source = source_of(form.version, form.source, ports, "driven")
    match asked["act"]:
        case "stage":
            await source.stage()
        case "apply":
            await apply(form, ports)
        case "remove":
            for unit in form.units:
                await let_go(ports.units, ports.files, unit)
            for file in form.files:
                await take_away(ports.files, file)
            await source.remove((), purge=True)
        case "watch":
            ports.watch.follow(paths(form))
            watching = asyncio.ensure_future(ports.watch.changed())
            await asyncio.sleep(0)  # until it watches
            await asyncio.to_thread(Path(asked["ready"]).write_text, "")
            return sorted(await watching)
        case _:
            pass
    found = await read_host_state(form, ports)
    told = [(one.kind, one.path, one.why) for one in drifted("driven", form, found)]
    return {"version": found.installed.version, "drift": told}


async def apply(form: ComponentForm, ports: ComponentPorts) -> None:
    await source_of(form.version, form.source, ports, "driven").install()
    changed = [await put(ports.files, file) for file in form.files]
    for unit in form.units:
        if any([await settle(ports.units, ports.files, unit), *changed]):
            await ports.units.restart(unit.name, 60)


async def main(request: Path, answer: Path) -> None:
    while True:
        asked = await asyncio.to_thread(taken, request)
        try:
            told = {"answer": await act(asked)}
        except HostError as error:
            told = {"error": f"{type(error).__name__}: {error}"}
        await asyncio.to_thread(write, answer, told)


def taken(request: Path) -> dict[str, Any]:
    while not request.exists():
        time.sleep(0.02)
    asked: dict[str, Any] = json.loads(request.read_text())
    request.unlink()
    return asked


def write(answer: Path, told: dict[str, Any]) -> None:
    answer.with_suffix(".new").write_text(json.dumps(told))
    answer.with_suffix(".new").replace(answer)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
