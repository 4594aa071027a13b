"""Forwards connections of this host to a port of a pod, as `kubectl port-forward` does.

Each connection has a websocket to the API server, which leads to the pod's kubelet. The first byte
of a message names its channel: 0 for data, 1 for an error. The first message of each channel holds
the port's number. The format is that of `v4.channel.k8s.io`.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import aiohttp

from kubenode.runtime.kube import paths
from kubenode.runtime.kube.errors import KubeError, ServerUnreachable, error_for
from kubenode.runtime.kube.transport import CredentialsError, CredentialsTransport

PROTOCOL = "v4.channel.k8s.io"
DATA, ERROR = b"\x00", b"\x01"
CHUNK_BYTES = 2**16
ADDRESS = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class PodPort:
    """A port of a pod."""

    namespace: str
    pod: str
    port: int

    @property
    def path(self) -> str:
        return f"{paths.pod(self.namespace, self.pod, 'portforward')}?ports={self.port}"


class PortForward:
    """A port of this host that leads to a port of a pod.

    find: returns the port of the pod. It is called for each connection, because pods come and go.
    """

    def __init__(
        self, transport: CredentialsTransport, find: Callable[[], Awaitable[PodPort]]
    ) -> None:
        self._transport, self._find = transport, find
        self.problem: KubeError | CredentialsError | None = None
        """Reason why the last connection failed, None if it did not."""

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[int]:
        """Yield a free port of the loopback address that is forwarded."""
        server = await asyncio.start_server(self._accept, ADDRESS, 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.problem = None
        try:
            target = await self._find()
            async with await self._open(target) as socket:
                await self._bridge(reader, writer, socket, target)
        except (KubeError, CredentialsError) as error:
            self.problem = error
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _open(self, target: PodPort) -> aiohttp.ClientWebSocketResponse:
        tried = f"GET {target.path}"
        try:
            return await self._transport.websocket(target.path, PROTOCOL)
        except aiohttp.WSServerHandshakeError as error:
            text = (
                f"port {target.port} of pod {target.pod} was not forwarded; `kubectl logs -n"
                f" {target.namespace} {target.pod}` shows whether its kubelet is reached"
            )
            raise error_for(error.status, message=text, tried=tried) from error
        except (aiohttp.ClientError, OSError) as error:
            raise ServerUnreachable(str(error) or type(error).__name__, tried=tried) from error

    async def _bridge(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        socket: aiohttp.ClientWebSocketResponse,
        target: PodPort,
    ) -> None:
        """Copy both directions. The end of one closes the other."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_send(reader, socket))
            if reported := await _receive(socket, writer):
                message = f"port {target.port} of pod {target.pod} was not reached: {reported}"
                self.problem = ServerUnreachable(message, tried=f"GET {target.path}")
            writer.close()


async def _send(reader: asyncio.StreamReader, socket: aiohttp.ClientWebSocketResponse) -> None:
    with suppress(aiohttp.ClientError, OSError):
        while chunk := await reader.read(CHUNK_BYTES):
            await socket.send_bytes(DATA + chunk)
    await socket.close()


async def _receive(socket: aiohttp.ClientWebSocketResponse, writer: asyncio.StreamWriter) -> str:
    """Copy the data of the pod; return the error that the kubelet reports, "" at the end."""
    opened: set[bytes] = set()
    with suppress(aiohttp.ClientError, OSError):
        async for message in socket:
            if message.type is not aiohttp.WSMsgType.BINARY:
                continue
            channel, content = message.data[:1], message.data[1:]
            if channel not in opened:  # the first message of a channel holds the port
                opened.add(channel)
            elif channel == ERROR:
                return str(content.decode(errors="replace")).strip()
            else:
                writer.write(content)
                await writer.drain()
    return ""
