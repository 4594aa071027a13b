"""What every port of a host holds to, simulated or real. As a program: on the host it runs on."""

import asyncio
import os
import sys
from collections.abc import Awaitable

from agent.host import HostError
from agent.host.ports import Ports, Process

SCRIPT = b"#!/bin/sh\necho contract\nexit 3\n"
NOBODY = 4_194_305
"""More than any PID."""


async def refused(asked: Awaitable[object]) -> bool:
    try:
        await asked
    except HostError:
        return True
    return False


async def contract(ports: Ports, name: str) -> list[str]:
    """Names of what does not hold. `name` is one that no request had before."""
    processes, kernel, scripts = ports.processes, ports.kernel, ports.scripts
    space = await ports.disks.space("/var/log")
    root = await ports.filesystems.mount("/")
    somaxconn = await kernel.sysctl("net.core.somaxconn")
    await kernel.set_sysctl("net.core.somaxconn", somaxconn)
    ran = await scripts.begin(name, SCRIPT, [], 30.0)
    held = {
        "nobody has no process": await processes.find(NOBODY) is None,
        "nobody gets no signal": not await processes.signal(Process(NOBODY, 1), "TERM"),
        "an unknown program does not run": not await processes.runs("no-such-program"),
        "a disk has room": 0 < space.free <= space.total,
        "old files are listed": await ports.disks.removable("crashDumps") == [],
        "the root is mounted": root is not None and root.point == "/",
        "nothing is mounted nowhere": await ports.filesystems.mount("/no/where") is None,
        "a sysctl is read back": await kernel.sysctl("net.core.somaxconn") == somaxconn,
        "an unknown sysctl is told": await refused(kernel.sysctl("net.no.such")),
        "an unknown module is not there": await kernel.module("no_such_module") is None,
        "an unknown module is not loaded": await refused(kernel.load("no_such_module")),
        "memory is known": await kernel.memory() > 0,
        "a network has a manager or none": isinstance(await ports.network.manager(), str),
        "an unknown restart is told": await refused(ports.network.result(f"{name}-other")),
        "no kubelet has no certificate": await ports.kubelet_certificate.read() is None,
        "a script's status is told": ran.code == 3,
        "and again to who follows": (await scripts.ended(name)) == ran,
        "an unknown script is told": await refused(scripts.ended(f"{name}-other")),
    }
    return [what for what, holds in held.items() if not holds]


async def certificate_contract(ports: Ports) -> list[str]:
    """Names of what does not hold on a host whose kubelet has a certificate."""
    store = ports.kubelet_certificate
    before = await store.read()
    await store.set_aside()
    aside = await store.read()
    await store.put_back()
    await store.put_back()
    held = {
        "the certificate is read": before is not None,
        "one that is set aside is not there": aside is None,
        "it is put back, once and again": await store.read() == before,
        "without a bootstrap kubeconfig none can be requested": not await store.can_bootstrap(),
    }
    return [what for what, holds in held.items() if not holds]


if __name__ == "__main__":
    from agent.host.files import HostRoot
    from agent.host.real.build import real_ports
    from agent.host.systemd import SystemdHost

    files = HostRoot(os.environ.get("KUBENODE_AGENT_HOST_ROOT", "/"))
    state = "/var/lib/kubenode-agent/contract"
    ports = real_ports(
        SystemdHost(files.bus_address()), "https://127.0.0.1:6443", state, files.root
    )
    asked = certificate_contract(ports) if "certificate" in sys.argv else contract(ports, "one")
    broken = asyncio.run(asked)
    sys.exit(f"does not hold: {', '.join(broken)}" if broken else 0)
