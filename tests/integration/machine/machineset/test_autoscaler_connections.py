"""Callers without a certificate at the port of the autoscaler provider."""

import asyncio
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest
from prometheus_client import CollectorRegistry
from support.cluster_autoscaler import HOST, ProviderCertificates
from support.daemons import free_port
from support.running import running

from machine.autoscaler.metrics import AutoscalerMetrics
from machine.autoscaler.provider import AutoscalerProvider
from machine.autoscaler.server import AutoscalerServer

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

CALLERS = 120
CLOSED_SECONDS = 15.0
MOST_MEMORY = 50 * 2**20
HELLO = bytes.fromhex("16030100c8010000c40303")
"""The begin of a TLS handshake."""


@pytest.fixture
async def port(tmp_path: Path) -> AsyncIterator[int]:
    files = ProviderCertificates.issue(tmp_path).files
    provider = cast(AutoscalerProvider, object())  # no caller here reaches a method
    metrics = AutoscalerMetrics(CollectorRegistry())
    server = AutoscalerServer(provider, metrics, HOST, free_port(), files)
    async with running(server.run()):
        yield server.port


@pytest.mark.parametrize("first", [b"", HELLO], ids=["silent", "half a handshake"])
async def test_slow_callers_cost_little_and_not_for_long(port: int, first: bytes) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with asyncio.timeout(CLOSED_SECONDS), asyncio.TaskGroup() as callers:
        for _ in range(CALLERS):
            callers.create_task(call_slowly(port, first))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown * 1024 < MOST_MEMORY
    with socket.create_connection((HOST, port), timeout=5):
        pass


async def call_slowly(port: int, first: bytes) -> None:
    """Return when the server has closed the connection."""
    reader, writer = await connect(port)
    writer.write(first)
    ended = asyncio.ensure_future(read_to_end(reader))
    while not ended.done():
        await asyncio.wait({ended}, timeout=0.3)
        if first:
            writer.write(b"\0")
    writer.transport.abort()


async def connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Wait until the server listens."""
    while True:
        with suppress(ConnectionRefusedError):
            return await asyncio.open_connection(HOST, port)
        await asyncio.sleep(0.05)


async def read_to_end(reader: asyncio.StreamReader) -> None:
    with suppress(OSError):
        while await reader.read(65536):
            pass
