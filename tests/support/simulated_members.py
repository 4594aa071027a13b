"""A local HTTPS server that answers as the API servers of many members, well or badly."""

import asyncio
import gzip
import json
import ssl
import tempfile
import threading
from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aiohttp import web
from support.pki import Authority

from captain.members.client import PLURALS
from captain.members.probe import GROUP_PATH, RULES_PATH
from kubenode.api.v1alpha1.membercluster import PAYLOAD_KINDS
from kubenode.cli.member_identity import (
    MemberEndpoint,
    build_kubeconfig,
    build_member,
    build_rules,
    build_secret,
)
from kubenode.runtime.kube.paths import custom

TOKEN = "t" * 900
"""As long as a token of a service account."""
STOP_SECONDS = 30.0


class MemberConduct(StrEnum):
    """How a member answers."""

    WELL = "well"
    SILENT = "silent"
    LARGE = "large"
    GARBLED = "garbled"
    DEEP = "deep"
    BOMB = "bomb"
    REDIRECT = "redirect"
    UNAVAILABLE = "unavailable"
    LYING = "lying"


class MemberSite:
    """The members `m-0`, `m-1` ... under one port, each with a path of its own.

    requests  counts by member
    escapes   requests that no member should send, such as one that followed a redirect
    """

    def __init__(self, machines: int = 10_000) -> None:
        self._machines = machines
        self.requests: Counter[str] = Counter()
        self.escapes: list[str] = []
        self.conduct: dict[str, MemberConduct] = {}
        self.connections = 0
        self._released = asyncio.Event()

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="kubenode-members-")
        self._authority = Authority(Path(self._folder.name))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="members")
        self._thread.start()
        self.port = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(STOP_SECONDS)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(STOP_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STOP_SECONDS)
        self._loop.close()
        self._folder.cleanup()

    def kubeconfig(self, name: str) -> bytes:
        authority = self._authority.cert_file.read_text()
        endpoint = MemberEndpoint(f"https://127.0.0.1:{self.port}/{name}", authority)
        return build_kubeconfig(name, endpoint, TOKEN)

    def objects(self, names: Iterable[str], namespace: str) -> list[dict[str, Any]]:
        """The namespace, the Secrets and the MemberClusters of these members."""
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        made: list[dict[str, Any]] = [space]
        for name in names:
            made.append(build_secret(namespace, name, self.kubeconfig(name)))
            made.append(build_member(name, {"stage": "production"}))
        return made

    async def _start(self) -> int:
        server = self._authority.issue("members", "members", sans=["127.0.0.1"])
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(server.cert_file, server.key_file)
        app = web.Application()
        app.router.add_route("*", "/escape", self._escape)
        app.router.add_route("*", "/{member}/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        port: int = self._runner.addresses[0][1]
        return port

    async def _stop(self) -> None:
        self._released.set()
        await self._runner.cleanup()

    async def _escape(self, request: web.Request) -> web.Response:
        self.escapes.append(str(request.headers.get("Authorization")))
        return web.json_response({})

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["member"]
        self.requests[name] += 1
        match self.conduct.get(name, MemberConduct.WELL):
            case MemberConduct.WELL:
                return self._well(f"/{request.match_info['path']}")
            case MemberConduct.SILENT:
                await self._released.wait()
                return web.Response(status=503)
            case MemberConduct.LARGE:
                return web.Response(body=b" " * 8 * 2**20 + b"{}")
            case MemberConduct.GARBLED:
                return web.Response(body=b"\xff<html>")
            case MemberConduct.DEEP:
                return web.Response(body=b"[" * 1_000_000)
            case MemberConduct.BOMB:
                packed = gzip.compress(b" " * 200 * 2**20, 9)
                return web.Response(body=packed, headers={"Content-Encoding": "gzip"})
            case MemberConduct.REDIRECT:
                raise web.HTTPTemporaryRedirect(f"https://127.0.0.1:{self.port}/escape")
            case MemberConduct.UNAVAILABLE:
                return web.Response(status=503, body=b"<b>" + b"x" * 2**20)
            case MemberConduct.LYING:
                body = {"gitVersion": "v\n" * 10**5, "resources": None, "metadata": 3}
                return web.json_response(body)

    def _well(self, path: str) -> web.Response:
        if path == "/version":
            return web.json_response({"major": "1", "gitVersion": "v1.34.2"})
        if path == GROUP_PATH:
            served = [{"name": PLURALS[kind], "kind": kind} for kind in PAYLOAD_KINDS]
            served.append({"name": "machines", "kind": "Machine"})
            return web.json_response({"resources": served})
        if path == custom("machines"):
            metadata = {"continue": "x", "remainingItemCount": self._machines - 1}
            return web.json_response({"items": [{}], "metadata": metadata})
        if path == RULES_PATH:
            rules = [rule for rule in build_rules() if "resources" in rule]
            body = {"status": {"resourceRules": rules, "incomplete": False}}
            return web.json_response(body, status=201)
        return web.Response(status=404, body=json.dumps({"reason": "NotFound"}).encode())
