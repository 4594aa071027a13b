"""`kubenode diagnose`: asked of a real agent's prober over the embedded API server."""

import asyncio
import tarfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.agent_world import World
from support.command import kubenode
from support.embedded import EmbeddedPlane
from support.remedy_cluster import Cluster, connected

from agent.diagnostics.bundler import DiagnosticsCollector
from agent.diagnostics.bundles import Bundles
from agent.prober import PLURAL, Prober
from agent.probes.diagnostics import Diagnostics
from agent.probes.host import HostProbes
from agent.wire import decode_probe
from kubenode.cli.cluster import crds
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.paths import custom

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def plane() -> Iterator[EmbeddedPlane]:
    with EmbeddedPlane(crds=crds()) as found:
        yield found


@asynccontextmanager
async def answering(cluster: Cluster, folder: Path) -> AsyncIterator[None]:
    """The part of an agent that answers questions, for the node `w1`."""
    clock = SystemClock()
    host = World(folder / "requests")
    collector = DiagnosticsCollector(Bundles(folder / "diagnostics"), clock)
    probes = HostProbes(host, str(folder), diagnostics=Diagnostics(collector, host, "w1", "w1"))
    prober = Prober(cluster.kube, probes, "w1", clock)
    questions = Informer(cluster.kube, custom(PLURAL), decode_probe, clock=clock)
    questions.add_handler(lambda key, old, new: prober.observe_probe(key, new))
    async with asyncio.TaskGroup() as tasks:
        parts = [tasks.create_task(part.run()) for part in (prober, questions)]
        try:
            yield
        finally:
            for part in parts:
                part.cancel()


async def test_a_person_gets_a_bundle_and_is_told_where_it_is(
    plane: EmbeddedPlane, tmp_path: Path
) -> None:
    async with connected(plane) as cluster, answering(cluster, tmp_path):
        await cluster.node("w1")
        asked = ("diagnose", "w1", "--part", "pressure", "--part", "system")
        done = await asyncio.to_thread(
            kubenode, *asked, "--wait", "1m", "--kubeconfig", plane.kubeconfig
        )
    assert done.returncode == 0, done.stderr
    first, second, third = done.stdout.splitlines()
    path = Path(first.split()[-1])
    assert first.startswith("on the host") and path.parent == tmp_path / "diagnostics"
    assert second.split(maxsplit=2)[2] == "no operator is set up to take a copy"
    assert "pressure " in third and "system " in third and "dmesg" not in third
    with tarfile.open(path) as bundle:
        names = {Path(name).name for name in bundle.getnames()}
    assert names == {"pressure.txt", "system.txt", "report.html"}


async def test_what_cannot_be_done_is_said_in_a_sentence(
    plane: EmbeddedPlane, tmp_path: Path
) -> None:
    async with connected(plane) as cluster, answering(cluster, tmp_path):
        await cluster.node("w1")
        for arguments, code, why in (
            (("w1", "--part", "shadow"), 1, "the agent could not: bundle: shadow: one of dmesg"),
            (("nowhere",), 1, "there is no node nowhere"),
            (("w1", "--wait", "soon"), 2, "--wait"),
            (("w1", "--operator", "https://x"), 1, "--operator needs --token-file"),
        ):
            done = await asyncio.to_thread(
                kubenode, "diagnose", *arguments, "--kubeconfig", plane.kubeconfig
            )
            assert (done.returncode, why in done.stderr) == (code, True), done.stderr


async def test_a_silent_agent_is_named(plane: EmbeddedPlane) -> None:
    async with connected(plane) as cluster:
        await cluster.node("w2")
        done = await asyncio.to_thread(
            kubenode, "diagnose", "w2", "--wait", "2s", "--kubeconfig", plane.kubeconfig
        )
    assert done.returncode == 1 and "is the agent alive?" in done.stderr
