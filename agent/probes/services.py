"""States of the services that make a host a node, from systemd and from the services themselves."""

import asyncio
import contextlib

from agent.host import Host, HostError, NoSuchUnit, Unit
from agent.host.files import OWN_FILES, HostRoot
from agent.probes import CannotAnswer

KUBELET = "kubelet.service"
KUBELET_HEALTH = ("127.0.0.1", 10248)
"""Address of kubelet's health endpoint (`healthzPort`), on the loopback by default."""
RUNTIMES = (
    ("containerd.service", "/run/containerd/containerd.sock"),
    ("crio.service", "/run/crio/crio.sock"),
    ("cri-docker.service", "/run/cri-dockerd.sock"),
)
TIME_UNITS = (
    "chronyd.service",
    "chrony.service",
    "ntpd.service",
    "ntp.service",
    "systemd-timesyncd.service",
)
KUBELET_STATES = ("running", "stopped", "hung")
RUNTIME_STATES = ("ok", "hung", "error")
TIME_STATES = ("active", "inactive", "failed")
ANSWER_SECONDS = 3.0
_HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""First bytes of an HTTP/2 client with an empty SETTINGS frame (RFC 9113, 3.4). A server answers
with its own SETTINGS frame.
"""


async def kubelet(host: Host) -> str | None:
    """Return `running`, `stopped` or `hung`; None without a kubelet service."""
    unit = await _unit(host, KUBELET)
    if unit is None:
        return None
    if unit.active != "active":
        return "stopped"
    address, port = KUBELET_HEALTH
    request = f"GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode()
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(ANSWER_SECONDS):
            reply = await _talk(await asyncio.open_connection(address, port), request)
            return "running" if reply.startswith(b"HTTP/1.1 200") else "hung"
    return "hung"


async def runtime(host: Host, files: HostRoot = OWN_FILES) -> str | None:
    """Return `ok`, `hung` or `error`; None without a known runtime.

    `ok` means that its API answers, not that it can start a container.

    files: where its socket is
    """
    for name, socket in RUNTIMES:
        unit = await _unit(host, name)
        if unit is None:
            continue
        if unit.active != "active":
            return "error"
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS):
                streams = await asyncio.open_unix_connection(files.path(socket))
                reply = await _talk(streams, _HTTP2_PREFACE)
                return "ok" if reply else "hung"
        return "hung"
    return None


async def time_daemon(host: Host) -> str | None:
    """Return `active`, `inactive` or `failed`: the best state of the installed units; None
    without any.
    """
    states = [unit.active for name in TIME_UNITS if (unit := await _unit(host, name)) is not None]
    known = [state if state in ("active", "failed") else "inactive" for state in states]
    return min(known, key=("active", "failed", "inactive").index, default=None)


async def _unit(host: Host, name: str) -> Unit | None:
    try:
        return await host.unit(name)
    except NoSuchUnit:
        return None
    except HostError as error:
        raise CannotAnswer(str(error)) from error


async def _talk(
    streams: tuple[asyncio.StreamReader, asyncio.StreamWriter], request: bytes
) -> bytes:
    """Return the first bytes of the answer; b"" if the peer closes without one."""
    reader, writer = streams
    try:
        writer.write(request)
        await writer.drain()
        return await reader.read(64)
    finally:
        writer.transport.abort()  # a graceful close could hang, too
        with contextlib.suppress(OSError):
            await writer.wait_closed()
