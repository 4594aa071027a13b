"""A TCP proxy that is slow or silent on command, before an API server that speaks plain HTTP."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit


class SlowProxy:
    """delay  seconds that everything takes each way
    silent  True: what is sent is kept, and arrives once it is False again
    """

    def __init__(self, server: str) -> None:
        where = urlsplit(server)
        self._host, self._port = where.hostname or "127.0.0.1", where.port or 80
        self._streams: set[asyncio.Task[None]] = set()
        self._goes_on = asyncio.Event()
        self._goes_on.set()
        self.delay = 0.0
        self.url = ""

    @property
    def silent(self) -> bool:
        return not self._goes_on.is_set()

    @silent.setter
    def silent(self, yes: bool) -> None:
        (self._goes_on.clear if yes else self._goes_on.set)()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._streams.add(task)
        ends = [writer]
        try:
            theirs, ours = await asyncio.open_connection(self._host, self._port)
            ends.append(ours)
            pumps = [self._pump(reader, ours), self._pump(theirs, writer)]
            await asyncio.gather(*pumps, return_exceptions=True)
        except (OSError, asyncio.CancelledError):
            pass  # the server, or the test, has gone
        finally:
            self._streams.discard(task)
            for end in ends:
                end.close()
                with suppress(OSError):
                    await end.wait_closed()

    async def _pump(self, source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65_536):
                await asyncio.sleep(self.delay)
                await self._goes_on.wait()
                to.write(data)
                await to.drain()
        finally:
            to.close()

    async def close(self) -> None:
        for task in list(self._streams):
            task.cancel()
        await asyncio.gather(*self._streams, return_exceptions=True)


@asynccontextmanager
async def slow_proxy(server: str) -> AsyncIterator[SlowProxy]:
    """Listens on a free port of 127.0.0.1 until the end of the block."""
    proxy = SlowProxy(server)
    listening = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    host, port = listening.sockets[0].getsockname()[:2]
    proxy.url = f"http://{host}:{port}"
    try:
        yield proxy
    finally:
        listening.close()
        await proxy.close()
