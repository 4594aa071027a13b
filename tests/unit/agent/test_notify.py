"""What systemd is told: ready, alive, and in a sentence what it is at."""

import asyncio
import os
import socket
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from support.clock import FakeClock, settle
from support.running import running

from agent.notify import Alive, SystemdNotifier


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.setblocking(False)
        yield listening


def heard(systemd: socket.socket) -> list[str]:
    found = []
    while True:
        try:
            found.append(systemd.recv(4096).decode())
        except BlockingIOError:
            return found


def notifier(systemd: socket.socket, **more: str) -> SystemdNotifier:
    return SystemdNotifier({"NOTIFY_SOCKET": systemd.getsockname(), **more})


async def test_ready_is_told_once_the_past_is_settled(systemd: socket.socket) -> None:
    recovered = asyncio.Event()
    alive = Alive(notifier(systemd), recovered.wait, lambda: "no open job", FakeClock())
    async with running(alive.run()):
        await settle()
        assert heard(systemd) == []
        recovered.set()
        await settle()
        assert heard(systemd) == ["READY=1\nSTATUS=no open job"]


async def test_the_watchdog_is_fed_three_times_within_its_time(systemd: socket.socket) -> None:
    clock = FakeClock()
    given = notifier(systemd, WATCHDOG_USEC="30000000")
    async with running(Alive(given, asyncio.Event().wait, lambda: "at work", clock).run()):
        await settle()
        for _ in range(3):
            assert heard(systemd) == ["WATCHDOG=1\nSTATUS=at work"]
            await clock.advance(timedelta(seconds=10))


def test_an_abstract_socket_is_understood() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0kubenode-{os.getpid()}")
        SystemdNotifier({"NOTIFY_SOCKET": f"@kubenode-{os.getpid()}"}).send("READY=1")
        assert listening.recv(100) == b"READY=1"


@pytest.mark.parametrize("environ", [{}, {"NOTIFY_SOCKET": "/nowhere/notify"}], ids=str)
def test_nobody_who_listens_is_no_failure(environ: dict[str, str]) -> None:
    SystemdNotifier(environ).send("READY=1")
