"""The agent as a process of its own, on a host in memory: whatever it is asked harms nobody.

python -m support.simulated_agent SERVER CA CERT KEY NAME FOLDER
"""

import asyncio
import sys
from pathlib import Path

from support.agent_world import World

from agent import logs
from agent.agent import Agent
from agent.components.records import MemoryRecords
from agent.journal import FileJournal
from agent.probes.host import HostProbes
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.plain import PlainTransport
from kubenode.runtime.process import run_until_signal
from simulation.hosts.components import SimulatedComponents
from simulation.hosts.host import SimulatedHost


async def run(server: str, ca: str, cert: str, key: str, name: str, folder: Path) -> None:
    """Until SIGTERM."""
    world = World(folder, goes_down=False)
    kube = Kube(PlainTransport(server, ca, cert, key))
    try:
        agent = Agent(
            kube,
            world,
            name,
            name,
            FileJournal(folder / "requests"),
            SystemClock(),
            HostProbes(world, str(folder)),
            settle=0.1,
            ports=SimulatedHost().ports(),
            software=(SimulatedComponents().ports(), MemoryRecords()),
        )
        await run_until_signal([agent])
    finally:
        await kube.close()


if __name__ == "__main__":
    server, ca, cert, key, name, where = sys.argv[1:]
    logs.setup("warning")
    asyncio.run(run(server, ca, cert, key, name, Path(where)))
