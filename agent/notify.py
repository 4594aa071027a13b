"""Tells systemd how the agent does: ready, alive, and in a sentence what it is at.

A datagram to the socket in $NOTIFY_SOCKET, see sd_notify(3). Without one nobody listens, and
nothing is sent. The watchdog is fed by the event loop: a loop that hangs is restarted by systemd,
and what it was at is settled from the journal.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping

from kubenode.runtime.clock import Clock
from kubenode.runtime.process import forever

log = logging.getLogger(__name__)

PER_TIMEOUT = 3
"""Feedings within one time-out of the watchdog."""


class SystemdNotifier:
    """environ as systemd gives it: NOTIFY_SOCKET, WATCHDOG_USEC."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        usec = environ.get("WATCHDOG_USEC", "")
        self.watchdog_seconds = int(usec) / 1e6 if usec.isdecimal() else 0.0

    def send(self, *lines: str) -> None:
        """Never raises and never blocks: systemd that does not listen is no reason to fail."""
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
    """A Part: READY once `ready` returns, the watchdog fed from the start on.

    status  one line for `systemctl status`, asked for at each feeding
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
