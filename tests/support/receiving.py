"""Receivers of notifications on this host: a mail server and an HTTP server with levers."""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message
from email.policy import default
from typing import Any

from aiohttp import web


@dataclass
class MailServer:
    """Speaks as much SMTP as a client needs that sends one mail at a time."""

    port: int = 0
    mails: list[Message] = field(default_factory=list)
    refuse: bool = False
    silent: bool = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def say(line: str) -> None:
            writer.write(f"{line}\r\n".encode())
            await writer.drain()

        try:
            if self.silent:
                await reader.read()
                return
            await say("220 mail.test ESMTP")
            while line := (await reader.readline()).decode().strip():
                word = line.split()[0].upper()
                if word == "DATA":
                    await say("354 go on")
                    raw = await reader.readuntil(b"\r\n.\r\n")
                    self.mails.append(message_from_bytes(raw[:-5], policy=default))
                elif word == "MAIL" and self.refuse:
                    await say("451 later")
                    continue
                await say("221 bye" if word == "QUIT" else "250 mail.test")
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()


@contextlib.asynccontextmanager
async def mail_server() -> AsyncIterator[MailServer]:
    found = MailServer()
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    try:
        yield found
    finally:
        server.close()


@dataclass
class HttpReceiver:
    """answers  status of each answer to come; then 200. `hang` until the test ends."""

    port: int = 0
    answers: list[int] = field(default_factory=list)
    hang: asyncio.Event | None = None
    got: list[tuple[dict[str, str], str]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def taken(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.got]

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.text()
        if self.hang is not None:
            await self.hang.wait()
        status = self.answers.pop(0) if self.answers else 200
        headers = {"Location": self.url} if status in (301, 302, 307, 308) else {}
        if status < 300:
            self.got.append((dict(request.headers), body))
        return web.Response(status=status, text="said", headers=headers)


@contextlib.asynccontextmanager
async def http_receiver() -> AsyncIterator[HttpReceiver]:
    found = HttpReceiver()
    app = web.Application()
    app.router.add_post("/{path:.*}", found.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    found.port = re_port(site.name)
    try:
        yield found
    finally:
        if found.hang is not None:
            found.hang.set()
        await runner.cleanup()


def re_port(address: str) -> int:
    found = re.search(r":(\d+)$", address)
    assert found is not None
    return int(found.group(1))
