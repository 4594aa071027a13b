"""A kubelet that forwards ports and does nothing else, for an API server without kubelets.

It leads every pod's port to a port of this host, in the format `v4.channel.k8s.io` of a kubelet.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import WSMsgType, web
from support.control_plane import ControlPlane

CHUNK_BYTES = 2**16


@dataclass
class ForwardingKubelet:
    """`target` is the port of this host; `forwarded` lists pod and port of each connection."""

    target: int
    port: int = 0
    forwarded: list[tuple[str, str]] = field(default_factory=list)

    async def forward(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(protocols=["v4.channel.k8s.io"])
        await socket.prepare(request)
        number = request.query["port"]
        self.forwarded.append((request.match_info["pod"], number))
        for channel in (0, 1):
            await socket.send_bytes(bytes([channel]) + int(number).to_bytes(2, "little"))
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError as error:
            await socket.send_bytes(b"\x01" + str(error).encode())
            return socket
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._copy(reader, socket))
            async for message in socket:
                if message.type is WSMsgType.BINARY:
                    assert message.data[0] == 0
                    writer.write(message.data[1:])
                    await writer.drain()
            writer.close()
        return socket

    async def _copy(self, reader: asyncio.StreamReader, socket: web.WebSocketResponse) -> None:
        while chunk := await reader.read(CHUNK_BYTES):
            await socket.send_bytes(b"\x00" + chunk)
        await socket.close()


@asynccontextmanager
async def forwarding_kubelet(cp: ControlPlane, target: int) -> AsyncIterator[ForwardingKubelet]:
    """A kubelet at `port` of the loopback address."""
    kubelet = ForwardingKubelet(target)
    app = web.Application()
    app.router.add_get("/portForward/{namespace}/{pod}", kubelet.forward)
    identity = cp.issue_server_cert("kubelet", ["127.0.0.1"])
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(identity.cert_file, identity.key_file)
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        kubelet.port = runner.addresses[0][1]
        yield kubelet
    finally:
        await runner.cleanup()
