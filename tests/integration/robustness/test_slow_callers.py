"""Callers without a credential that send byte by byte, at every port of the real programs.

The programs run as people start them, with a shorter time for a request than by default.
"""

import asyncio
import contextlib
import json
import logging
import ssl
import time
from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest
from support.embedded import EmbeddedPlane
from support.program_ports import PORTS, Port, ProgramPorts, anyone
from support.remedy_cluster import Cluster
from support.replicas import FAULT, NAMESPACE, marking_rule, wide_open

from kubenode.cli.cluster import crds
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import AlreadyExists
from kubenode.runtime.kube.official import connect

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(240),
    # asyncio leaves the transport open when the server ends a connection during the handshake.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

log = logging.getLogger(__name__)

READ_SECONDS = 3.0
CLOSED_SECONDS = 15.0
"""From the last connection to the end of all; the default READ_SECONDS is 10."""
CALLERS = 120
MOST_MEMORY = 50 * 2**20
BODY = 8 * 2**20
PART = 2**16


@pytest.fixture(scope="module")
def plane() -> Iterator[EmbeddedPlane]:
    with EmbeddedPlane(crds=crds()) as found:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        found.kubectl("apply", "-f", "-", stdin=json.dumps(namespace))  # for certificates
        yield found


FIRST = "first"


@pytest.fixture(scope="module")
def programs(
    plane: EmbeddedPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, ProgramPorts]]:
    folder = tmp_path_factory.mktemp("slow")
    tokens = folder / "tokens"
    tokens.write_text("0123456789abcdef0123456789abcdef\n")
    doctor = f"--host-doctor-token-files={tokens}", f"--bundles={folder}"
    quick = f"--http-read-seconds={READ_SECONDS}"
    operator = f"--kubeconfig={plane.kubeconfig}", "--no-lease", quick
    database = f"--database-url=sqlite:///{folder}/insight.db"
    credentials = f"--sender-token-file={tokens}", f"--reader-token-file={tokens}"
    found = {
        "all": ProgramPorts("all", folder, *operator, "--tls", *doctor),
        "machine": ProgramPorts("machine", folder, *operator),
        "captain": ProgramPorts("captain", folder, *operator),
        "insight": ProgramPorts("insight", folder, quick, database, *credentials),
    }
    try:
        for each in found.values():
            each.daemon.start()
        yield found
    finally:
        for each in found.values():
            each.daemon.stop()


@pytest.fixture
async def cluster(plane: EmbeddedPlane) -> AsyncIterator[Cluster]:
    kube = Kube(connect(str(plane.kubeconfig)))
    try:
        yield Cluster(kube)
    finally:
        await kube.close()


async def answers(port: Port, number: int) -> bool:
    """Whether an honest caller has an answer."""
    scheme = "https" if port.tls else "http"
    limit = aiohttp.ClientTimeout(total=5)
    try:
        async with (
            aiohttp.ClientSession(timeout=limit) as session,
            session.get(f"{scheme}://127.0.0.1:{number}/healthz", ssl=anyone()) as answer,
        ):
            return bool(answer.status < 500)
    except (aiohttp.ClientError, OSError, TimeoutError):
        return False


async def slow_caller(port: Port, number: int, shape: str) -> None:
    """Returns when the server has ended the connection."""
    encrypted = anyone() if port.tls and shape != "silent" else None
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", number, ssl=encrypted)
    except (OSError, ssl.SSLError):
        return  # ended during its handshake, which was late on a busy machine
    async with asyncio.TaskGroup() as tasks:
        ended = tasks.create_task(_to_the_end(reader))
        with contextlib.suppress(OSError, ssl.SSLError):
            await _send(port, shape, writer, ended)
    writer.transport.abort()


async def _send(
    port: Port, shape: str, writer: asyncio.StreamWriter, ended: "asyncio.Task[None]"
) -> None:
    head = f"{port.method} {port.path} HTTP/1.1\r\nHost: x\r\n".encode()
    if shape == "head":
        writer.write(head)
    elif shape == "body":
        writer.write(head + f"Content-Length: {BODY}\r\n\r\n".encode())
        for _ in range(BODY // PART - 1):
            if ended.done():
                return
            writer.write(b"[" * PART)
            await writer.drain()
    while not ended.done():
        await asyncio.wait({ended}, timeout=0.3)
        if shape != "silent":
            writer.write(b"x")
            await writer.drain()


async def _to_the_end(reader: asyncio.StreamReader) -> None:
    with contextlib.suppress(OSError, ssl.SSLError):
        while await reader.read(PART):
            pass


async def _heals(cluster: Cluster, node: str) -> float:
    """Seconds until a new fault of a node has led to its act."""
    began = time.monotonic()
    await cluster.say(node, FAULT, "True")

    async def acted() -> bool:
        found = await cluster.kube.get(paths.node(node))
        return bool(
            (found["metadata"].get("labels") or {}).get("kubenode.io/suspect-repair") == "yes"
        )

    while not await acted():
        assert time.monotonic() - began < 60, "healing goes on"
        await asyncio.sleep(0.2)
    return time.monotonic() - began


async def _prepared(cluster: Cluster) -> None:
    """Heal a first node: programs build validators at first use, which is no cost of callers."""
    await wide_open(cluster)
    with contextlib.suppress(AlreadyExists):
        await marking_rule(cluster)
        await cluster.node(FIRST)
        await _heals(cluster, FIRST)
        await cluster.kube.call("DELETE", paths.node(FIRST))


@pytest.mark.parametrize("shape", ["silent", "head", "body"])
@pytest.mark.parametrize("port", PORTS, ids=str)
async def test_slow_callers_without_a_credential_cost_little_and_not_for_long(
    port: Port,
    shape: str,
    programs: dict[str, ProgramPorts],
    cluster: Cluster,
) -> None:
    program = programs[port.program]
    number = program.ports[port.flag]

    async def ready() -> None:
        for _ in range(600):
            if await answers(port, number):
                return
            if program.daemon.process is None or program.daemon.process.poll() is not None:
                break
            await asyncio.sleep(0.2)
        raise AssertionError(program.daemon.tail())

    await ready()
    await _prepared(cluster)
    node = f"n{PORTS.index(port)}-{shape}"
    await cluster.node(node)
    before, most = program.memory, 0
    began = time.monotonic()
    async with asyncio.TaskGroup() as tasks:
        healing = tasks.create_task(_heals(cluster, node))
        callers = [tasks.create_task(slow_caller(port, number, shape)) for _ in range(CALLERS)]
        while left := sum(not task.done() for task in callers):
            await asyncio.sleep(0.1)
            most = max(most, program.memory)
            assert time.monotonic() - began < CLOSED_SECONDS, f"{left} are open"
        closed = time.monotonic() - began
    await cluster.kube.call("DELETE", paths.node(node))
    grown = (most - before) / 2**20
    log.info("%s %s: %.1f MiB, closed %.1f s, healed %.1f s",
             port, shape, grown, closed, healing.result())  # fmt: skip
    assert most - before < MOST_MEMORY
    assert await answers(port, number), "an honest caller is answered afterwards"
