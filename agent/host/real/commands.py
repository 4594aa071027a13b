"""Commands as transient units of systemd: outside the agent's sandbox and lifetime.

A unit is requested over D-Bus with the properties below. `Type=oneshot` makes systemd's job end
with the process, and the start timeout ends all processes of the command. A persistent unit
(`run_persistent`, `begin_persistent`) stays loaded after its end, so that a later process of the
agent can read the result.
"""

import asyncio
import itertools
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from dbus_fast import Variant

from agent.host import HostError
from agent.host.ports import CommandResult
from agent.host.real import transient
from agent.host.systemd import SystemdHost

OUTPUT_BYTES = 64 * 1024
"""Maximum bytes of an output; the beginning of a longer one is discarded."""
ENVIRONMENT = ("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C")
MARGIN_SECONDS = 10.0
"""Seconds that the agent waits beyond systemd's own timeout."""
DRAIN_SECONDS = 2.0
JOURNAL_LINES = 200
FORGET_SECONDS = 30.0
JOURNAL_SECONDS = 10.0
CAPABILITIES = {
    "CAP_CHOWN": 0,
    "CAP_DAC_OVERRIDE": 1,
    "CAP_DAC_READ_SEARCH": 2,
    "CAP_FOWNER": 3,
    "CAP_KILL": 5,
    "CAP_SETGID": 6,
    "CAP_SETUID": 7,
    "CAP_NET_ADMIN": 12,
    "CAP_NET_RAW": 13,
    "CAP_SYS_MODULE": 16,
    "CAP_SYS_RAWIO": 17,
    "CAP_SYS_PTRACE": 19,
    "CAP_SYS_ADMIN": 21,
    "CAP_SYS_TIME": 25,
}
"""Numbers of the capabilities, from linux/capability.h."""
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class HostCommand:
    """A command and its limits.

    argv: the program is a full path, or is found in PATH by systemd
    limit: seconds, after which the command is ended
    capabilities: all that the command may have; None: those of systemd's services
    name: of the unit, without suffix; "" for one whose result is not read later
    after: command that runs after a failure or timeout, and at `forget`
    after_limit: seconds for `after`
    """

    argv: Sequence[str]
    limit: float = 30.0
    capabilities: Collection[str] | None = ()
    name: str = ""
    after: Sequence[str] = ()
    after_limit: float = 5.0


class Commands:
    def __init__(self, host: SystemdHost) -> None:
        self._host = host

    async def run(self, command: HostCommand) -> CommandResult:
        """Run the command; return its exit code and the end of its output.

        Raises HostError; TimeoutError if systemd ended the command at its limit.
        """
        unit = f"kubenode-{os.getpid()}-{next(_numbers)}.service"
        return await self._run(unit, command)

    async def checked(self, command: HostCommand) -> str:
        """Run the command and return its output. Raises HostError for an exit status other than
        0, or a timeout.
        """
        try:
            ran = await self.run(command)
        except TimeoutError as error:
            raise HostError(f"{' '.join(command.argv)}: no end in {command.limit:g} s") from error
        if ran.code != 0:
            raise HostError(f"{' '.join(command.argv)}: exit status {ran.code}: {ran.output}")
        return ran.output

    async def run_persistent(self, command: HostCommand) -> CommandResult:
        """Run the command as `run` does, with its output in the journal.

        The output thus does not depend on a reader in the agent. `ended` returns the result until
        `forget`.
        """
        unit = f"{command.name}.service"
        limit = command.limit + command.after_limit + MARGIN_SECONDS
        end = await transient.run(self._host, unit, _properties(command, persistent=True), limit)
        if end.timed_out:
            raise TimeoutError
        return CommandResult(end.code, await self._logged(unit))

    async def begin_persistent(self, command: HostCommand) -> None:
        """Start the command without waiting."""
        properties = _properties(command, persistent=True)
        await transient.begin(self._host, f"{command.name}.service", properties)

    async def ended(self, name: str) -> CommandResult | None:
        """Return the result; None while it runs. Raises NoSuchUnit if it never began, or was
        unloaded.
        """
        unit = f"{name}.service"
        end = await transient.ended(self._host, unit)
        return None if end is None else CommandResult(end.code, await self._logged(unit))

    async def _logged(self, unit: str) -> str:
        """Return the unit's output, as far as the journal has it. The unit's name is unique to
        one request.
        """
        filters = ("--boot", "--output=cat", f"--lines={JOURNAL_LINES}", f"_SYSTEMD_UNIT={unit}")
        await self.run(HostCommand(["journalctl", "--sync"], JOURNAL_SECONDS))
        argv = ["journalctl", "--no-pager", "--quiet", *filters]
        return (await self.run(HostCommand(argv, JOURNAL_SECONDS, ("CAP_DAC_OVERRIDE",)))).output

    async def forget(self, name: str) -> None:
        await transient.forget(self._host, f"{name}.service", FORGET_SECONDS)

    async def _run(self, unit: str, command: HostCommand) -> CommandResult:
        properties = _properties(command, persistent=False)
        tail = _Tail()
        ours, theirs = os.pipe()
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(tail.read(ours))
            try:
                limit = command.limit + MARGIN_SECONDS
                end = await transient.run(self._host, unit, properties, limit, output=theirs)
            finally:
                os.close(theirs)
            # Do not wait for a process that the command left running with the other end open.
            await asyncio.wait({reading}, timeout=DRAIN_SECONDS)
            reading.cancel()
        if end.timed_out:
            raise TimeoutError
        return CommandResult(end.code, tail.text)


class _Tail:
    """The end of a pipe's output."""

    def __init__(self) -> None:
        self._output = b""

    @property
    def text(self) -> str:
        return self._output.decode(errors="replace").strip()

    async def read(self, pipe: int) -> None:
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(pipe, "rb", 0)
        )
        try:
            while part := await reader.read(OUTPUT_BYTES):
                self._output = (self._output + part)[-OUTPUT_BYTES:]
        finally:
            transport.close()


def _properties(command: HostCommand, *, persistent: bool) -> dict[str, Variant]:
    given: dict[str, tuple[str, Any]] = {
        "Description": ("s", f"KubeNode repair: {command.argv[0]}"),
        "Type": ("s", "oneshot"),
        "RemainAfterExit": ("b", persistent),
        "CollectMode": ("s", "inactive" if persistent else "inactive-or-failed"),
        "ExecStart": ("a(sasb)", [_exec(command.argv)]),
        "Environment": ("as", list(ENVIRONMENT)),
        "TimeoutStartUSec": ("t", int(command.limit * 1_000_000)),
        "TimeoutStopUSec": ("t", int(command.after_limit * 1_000_000)),
        "KillMode": ("s", "control-group"),
        "StandardInput": ("s", "null"),
        "StandardError": ("s", "inherit"),
    }
    if not persistent:
        given["AddRef"] = ("b", True)
    if command.after:
        given["ExecStopPost"] = ("a(sasb)", [_exec(command.after)])
    if command.capabilities is not None:
        given["NoNewPrivileges"] = ("b", True)
        given["CapabilityBoundingSet"] = (
            "t",
            sum(1 << CAPABILITIES[name] for name in command.capabilities),
        )
    return {name: Variant(kind, value) for name, (kind, value) in given.items()}


def _exec(argv: Sequence[str]) -> list[Any]:
    """Build systemd's form of argv.

    Older versions of systemd require a full path, and the folders of tools vary between hosts.
    """
    plain = [word.replace("$", "$$") for word in argv]  # systemd substitutes variables for $NAME
    if argv[0].startswith("/"):
        return [argv[0], plain, False]
    return ["/usr/bin/env", ["/usr/bin/env", *plain], False]
