"""systemd's signals over D-Bus. Source: org.freedesktop.systemd1(5).

Match rules name each watched unit, so that signals of a busy node's scopes and mounts are not
delivered.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from agent.detectors.checks.services.units import RestartCallback
from agent.probes import CannotAnswer

SYSTEMD = "org.freedesktop.systemd1"
ROOT = "/org/freedesktop/systemd1"
SERVICE, PROPERTIES = f"{SYSTEMD}.Service", "org.freedesktop.DBus.Properties"
DAEMON = "org.freedesktop.DBus"
CALL_SECONDS = 25.0


class SystemdListener:
    """Implements Listener. address: of the system bus; None for the default one."""

    def __init__(self, address: str | None = None) -> None:
        self._address = address

    async def listen(
        self, units: Sequence[str], on_restarts: RestartCallback, ready: Callable[[], None]
    ) -> None:
        from dbus_fast import BusType, DBusError
        from dbus_fast.aio import MessageBus
        from dbus_fast.errors import AuthError, InvalidAddressError

        bus = MessageBus(self._address, bus_type=BusType.SYSTEM)
        try:
            async with asyncio.timeout(CALL_SECONDS):
                await bus.connect()
                await _Hearing(bus, units, on_restarts).begin()
            ready()
            ended: Any = bus.wait_for_disconnect()  # type: ignore[no-untyped-call]
            await asyncio.shield(ended)  # a cancel would reach the bus's own future
        except (OSError, EOFError, TimeoutError) as error:
            raise CannotAnswer(f"the system bus: {error!r}") from error
        except (AuthError, InvalidAddressError, DBusError) as error:
            raise CannotAnswer(f"the system bus: {error!r}") from error
        finally:
            bus.disconnect()
        raise CannotAnswer("the system bus went away")


class _Hearing:
    def __init__(self, bus: Any, units: Sequence[str], on_restarts: RestartCallback) -> None:
        self._bus, self._on_restarts = bus, on_restarts
        self._paths = {path(unit): unit for unit in units}

    async def begin(self) -> None:
        """Subscribe first, then read, so that no change is missed. Raises CannotAnswer."""
        self._bus.add_message_handler(self._receive)
        await self._call(SYSTEMD, ROOT, f"{SYSTEMD}.Manager", "Subscribe", "")
        for where, unit in self._paths.items():
            rule = (
                f"type='signal',sender='{SYSTEMD}',interface='{PROPERTIES}',"
                f"member='PropertiesChanged',path='{where}',arg0='{SERVICE}'"
            )
            await self._call(DAEMON, "/org/freedesktop/DBus", DAEMON, "AddMatch", "s", rule)
            body = await self._call(
                *(SYSTEMD, where, PROPERTIES, "Get", "ss", SERVICE, "NRestarts")
            )
            self._on_restarts(unit, int(body[0].value) if body else 0)

    def _receive(self, message: Any) -> None:
        if message.member == "PropertiesChanged" and (unit := self._paths.get(message.path)):
            interface, changed, _ = message.body
            if interface == SERVICE and "NRestarts" in changed:
                self._on_restarts(unit, int(changed["NRestarts"].value))

    async def _call(
        self, to: str, where: str, interface: str, member: str, signature: str, *args: str
    ) -> list[Any]:
        """Call a method; return [] if systemd knows no such unit. Raises CannotAnswer."""
        from dbus_fast import Message, MessageType

        message = Message(
            destination=to,
            path=where,
            interface=interface,
            member=member,
            signature=signature,
            body=list(args),
        )
        reply = await self._bus.call(message)
        if reply is None:
            raise CannotAnswer(f"{member}: no answer from the system bus")
        if reply.message_type is MessageType.ERROR:
            if member == "Get":
                return []
            raise CannotAnswer(f"{member}: {reply.body[0] if reply.body else reply.error_name}")
        body: list[Any] = reply.body
        return body


def path(unit: str) -> str:
    """Return the object path of a unit: each byte except letters and digits is written as its
    code.
    """
    first, rest = unit[:1], unit[1:]
    safe = first if first.isalpha() and first.isascii() else f"_{ord(first):02x}"
    for byte in rest.encode():
        letter = chr(byte)
        plain = letter.isascii() and letter.isalnum()
        safe += letter if plain else f"_{byte:02x}"
    return f"{ROOT}/unit/{safe}"
