"""Notifies systemd: ready, alive, and one line of status.

It sends a datagram to the socket in $NOTIFY_SOCKET (see sd_notify(3)), or nothing without one. The
event loop feeds the watchdog, so systemd restarts an agent whose loop hangs. The journal then
settles what the agent was doing.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping

from kubenode.runtime.clock import Clock
from kubenode.runtime.process import forever

log = logging.getLogger(__name__)

PER_TIMEOUT = 3
"""Notifications within one timeout of the watchdog."""


class SystemdNotifier:
    """Sends notifications. environ: with systemd's NOTIFY_SOCKET and WATCHDOG_USEC."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        usec = environ.get("WATCHDOG_USEC", "")
        self.watchdog_seconds = int(usec) / 1e6 if usec.isdecimal() else 0.0

    def send(self, *lines: str) -> None:
        """Send the lines. Never raises and never blocks: the agent works without systemd."""
        if not self._address:
            return
        address = self._address
        if address.startswith("@"):  # an abstract socket
            address = "\0" + address[1:]
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.setblocking(False)
                sender.sendto("\n".join(lines).encode(), address)
        except OSError as error:
            log.warning("systemd was not told", extra={"error": str(error), "what": lines[0]})


class Alive:
    """Part: sends READY once `ready` returns, and feeds the watchdog from the start.

    status: returns one line for `systemctl status`, at each notification
    """

    name = "alive"

    def __init__(
        self,
        notifier: SystemdNotifier,
        ready: Callable[[], Awaitable[object]],
        status: Callable[[], str],
        clock: Clock,
    ) -> None:
        self._notifier, self._ready, self._status = notifier, ready, status
        self._clock = clock

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._feed())
            await self._ready()
            self._notifier.send("READY=1", f"STATUS={self._status()}")

    async def _feed(self) -> None:
        seconds = self._notifier.watchdog_seconds
        if not seconds:
            await forever()
        while True:
            self._notifier.send("WATCHDOG=1", f"STATUS={self._status()}")
            await self._clock.sleep(seconds / PER_TIMEOUT)
