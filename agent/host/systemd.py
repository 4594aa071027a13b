"""Implementation of Host over systemd's D-Bus interface.

Each action uses its own connection: actions are rare, connecting takes a millisecond, and a
dbus-daemon that was restarted in between (perhaps by the agent) needs no special case. Messages are
built by hand instead of with introspected proxies, which would first load a description of systemd
of 100 KB. Source: org.freedesktop.systemd1(5).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from dbus_fast import BusType, DBusError, Message, MessageType
from dbus_fast.aio import MessageBus
from dbus_fast.errors import AuthError, InvalidAddressError

from agent.host import (
    BOOT_ID_FILE,
    HostError,
    HostUnreachable,
    NoSuchUnit,
    Unit,
    UnitVerb,
    read_boot_id,
)

SYSTEMD = "org.freedesktop.systemd1"
MANAGER = f"{SYSTEMD}.Manager"
ROOT = "/org/freedesktop/systemd1"
CALL_TIMEOUT = 25.0
"""Seconds for one call; D-Bus' own default. Waiting for a unit has a separate limit."""
LOGIN, LOGIN_ROOT = "org.freedesktop.login1", "/org/freedesktop/login1"
_BY_PATH = {"/org/freedesktop/DBus": "org.freedesktop.DBus", LOGIN_ROOT: LOGIN}


class _NoSuchService(HostError):
    """No service owns that name on the bus."""


_ERRORS: Mapping[str, type[HostError]] = {
    f"{SYSTEMD}.NoSuchUnit": NoSuchUnit,
    f"{SYSTEMD}.LoadFailed": NoSuchUnit,
    f"{SYSTEMD}.UnitMasked": NoSuchUnit,
    "org.freedesktop.DBus.Error.ServiceUnknown": _NoSuchService,
    "org.freedesktop.DBus.Error.NameHasNoOwner": _NoSuchService,
}


class SystemdHost:
    """Implements agent.host.Host for this machine.

    bus_address: D-Bus address of the system bus; None for the default
    boot_id_file: file of the kernel with the boot ID
    """

    def __init__(self, bus_address: str | None = None, boot_id_file: str = BOOT_ID_FILE) -> None:
        self._bus_address = bus_address
        self._boot_id_file = boot_id_file

    def boot_id(self) -> str:
        return read_boot_id(self._boot_id_file)

    async def unit(self, name: str) -> Unit:
        async with self.connect() as bus:
            return await bus.unit(name)

    async def reset_failed(self, name: str) -> None:
        async with self.connect() as bus:
            try:
                await bus.manager("ResetFailedUnit", "s", name)
            except NoSuchUnit:
                return  # not loaded, so it has no failed state

    async def unit_job(self, verb: UnitVerb, name: str, timeout: float) -> None:  # noqa: ASYNC109
        async with self.connect() as bus:
            await bus.run_job(verb, name, timeout)

    async def reboot(self) -> None:
        async with self.connect() as bus:
            await bus.reboot()

    @asynccontextmanager
    async def connect(self) -> AsyncIterator["Bus"]:
        """Open a connection for one action. Raises HostUnreachable."""
        bus = MessageBus(self._bus_address, bus_type=BusType.SYSTEM, negotiate_unix_fd=True)
        try:
            async with asyncio.timeout(CALL_TIMEOUT):
                await bus.connect()
        except (OSError, EOFError, AuthError, InvalidAddressError) as error:
            raise HostUnreachable(f"connect to the system bus: {error!r}") from error
        try:
            yield Bus(bus)
        finally:
            bus.disconnect()


class Bus:
    """One connection, with the calls made over it."""

    def __init__(self, bus: MessageBus) -> None:
        self._bus = bus
        self._results: dict[str, str] = {}  # object path of a systemd job: its result
        self._news = asyncio.Event()

    async def call(
        self,
        path: str,
        interface: str,
        member: str,
        signature: str,
        *args: Any,
        files: Sequence[int] = (),
    ) -> list[Any]:
        to = _BY_PATH.get(path, SYSTEMD)
        message = Message(
            destination=to,
            path=path,
            interface=interface,
            member=member,
            signature=signature,
            body=list(args),
            unix_fds=list(files),
        )
        tried = f"{member} {args[0] if args else ''}".strip()
        try:
            async with asyncio.timeout(CALL_TIMEOUT):
                reply = await self._bus.call(message)
        except (OSError, EOFError, DBusError) as error:
            raise HostUnreachable(f"{tried}: no answer from systemd: {error!r}") from error
        if reply is None:
            raise HostUnreachable(f"{tried}: no answer from systemd")
        if reply.message_type is MessageType.ERROR:
            text = f"{tried}: {reply.body[0] if reply.body else reply.error_name}"
            raise _ERRORS.get(reply.error_name or "", HostError)(text)
        return reply.body

    async def manager(
        self, member: str, signature: str, *args: Any, files: Sequence[int] = ()
    ) -> list[Any]:
        return await self.call(ROOT, MANAGER, member, signature, *args, files=files)

    async def unit(self, name: str) -> Unit:
        (path,) = await self.manager("LoadUnit", "s", name)
        read = await self.properties(path, f"{SYSTEMD}.Unit")
        if read.get("LoadState") in ("not-found", "masked"):
            raise NoSuchUnit(f"unit {name} is {read['LoadState']} on this host")
        own: dict[str, Any] = {}
        if name.endswith(".service"):
            own = await self.properties(path, f"{SYSTEMD}.Service")
        return Unit(
            name=name,
            active=read.get("ActiveState", ""),
            sub=read.get("SubState", ""),
            result=own.get("Result", "success"),
            exit_status=own.get("ExecMainStatus", 0),
            invocation=bytes(read.get("InvocationID", b"")).hex(),
            oneshot=own.get("Type") == "oneshot",
        )

    async def properties(self, path: str, interface: str) -> dict[str, Any]:
        (variants,) = await self.call(
            path, "org.freedesktop.DBus.Properties", "GetAll", "s", interface
        )
        return {key: variant.value for key, variant in variants.items()}

    async def run_job(self, verb: UnitVerb, name: str, limit: float) -> None:
        await self.listen()
        (job,) = await self.manager(verb.value, "ss", name, "replace")
        result = await self.end_of(job, limit, f"{verb} {name}")
        if result not in ("done", "skipped"):
            raise HostError(f"{verb} {name}: systemd's job ended with {result!r}")

    async def listen(self) -> None:
        """Subscribe to job results. Call before requesting a job: a quick one may end before the
        call returns.
        """
        self._bus.add_message_handler(self._receive)
        await self.manager("Subscribe", "")
        rule = f"type='signal',sender='{SYSTEMD}',interface='{MANAGER}',member='JobRemoved'"
        daemon = "org.freedesktop.DBus"
        await self.call("/org/freedesktop/DBus", daemon, "AddMatch", "s", rule)

    async def end_of(self, job: str, limit: float, tried: str) -> str:
        """Return the result of a systemd job. Raises HostError if it was cancelled after `limit` s.

        tried: the attempt, for the text of the error
        """
        try:
            async with asyncio.timeout(limit):
                return await self._ended(job)
        except TimeoutError as error:
            await self._withdraw(job)
            raise HostError(
                f"{tried}: not done within {limit:g} s; systemd's job was withdrawn"
            ) from error

    async def reboot(self) -> None:
        """Reboot as `systemctl reboot` does.

        logind honours inhibitors that delay shutdowns, such as kubelet's. Without logind, systemd
        is asked.
        """
        try:
            await self.call(LOGIN_ROOT, f"{LOGIN}.Manager", "Reboot", "b", False)
        except _NoSuchService:
            await self.manager("StartUnit", "ss", "reboot.target", "replace-irreversibly")

    def _receive(self, message: Message) -> None:
        if message.message_type is MessageType.SIGNAL and message.member == "JobRemoved":
            _, job, _, result = message.body
            self._results[job] = result
            self._news.set()

    async def _ended(self, job: str) -> str:
        """Return the job's result. Raises HostUnreachable if the bus goes away first."""
        async with asyncio.TaskGroup() as tasks:
            lost = tasks.create_task(_gone(self._bus))
            while job not in self._results:
                self._news.clear()
                signal_task = tasks.create_task(self._news.wait())
                await asyncio.wait({lost, signal_task}, return_when=asyncio.FIRST_COMPLETED)
                signal_task.cancel()
                if lost.done():
                    break
            lost.cancel()
        if job not in self._results:
            raise HostUnreachable("the system bus went away while systemd worked")
        return self._results[job]

    async def _withdraw(self, job: str) -> None:
        """Cancel a late job, so that it cannot take effect when nobody expects it any more."""
        try:
            await self.call(job, f"{SYSTEMD}.Job", "Cancel", "")
        except HostError:
            return  # the job has ended after all, or systemd is gone


async def _gone(bus: MessageBus) -> None:
    """Return when the connection has ended, for any reason."""
    ended: Awaitable[None] = bus.wait_for_disconnect()  # type: ignore[no-untyped-call]
    try:
        await asyncio.shield(ended)  # a cancel would reach the bus' own future
    except (OSError, EOFError):
        return
