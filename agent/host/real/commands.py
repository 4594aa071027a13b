"""Commands as transient units of systemd: outside the agent's sandbox, and outside its life.

A unit is asked for over D-Bus with the properties below. `Type=oneshot` makes systemd's job end
with the process, and its start timeout ends whatever the command has begun. A unit that is *kept*
stays loaded when it has ended, so that a later process of the agent can read how.
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
"""Of an output; of more the beginning is thrown away."""
ENVIRONMENT = ("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C")
MARGIN_SECONDS = 10.0
"""How much later than systemd we stop waiting."""
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
"""linux/capability.h"""
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class HostCommand:
    """argv          by full path or found in PATH by systemd
    limit         seconds, then it is ended
    capabilities  all that it may have; None: whatever systemd's services have
    name          of its unit, without suffix; "" for one that nobody asks for later
    after         run when it fails or is ended, and when it is forgotten
    after_limit   seconds for that
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
        """How it ended, with the end of what it said. Raises HostError, TimeoutError."""
        unit = f"kubenode-{os.getpid()}-{next(_numbers)}.service"
        return await self._run(unit, command)

    async def checked(self, command: HostCommand) -> str:
        """What it said. Raises HostError when it ends with anything but 0, or is late."""
        try:
            ran = await self.run(command)
        except TimeoutError as error:
            raise HostError(f"{' '.join(command.argv)}: no end in {command.limit:g} s") from error
        if ran.code != 0:
            raise HostError(f"{' '.join(command.argv)}: exit status {ran.code}: {ran.output}")
        return ran.output

    async def run_persistent(self, command: HostCommand) -> CommandResult:
        """As `run`, but its output goes to the journal: no reader's end may be its own.

        `ended` tells its end until `forget`.
        """
        unit = f"{command.name}.service"
        limit = command.limit + command.after_limit + MARGIN_SECONDS
        end = await transient.run(self._host, unit, _properties(command, persistent=True), limit)
        if end.timed_out:
            raise TimeoutError
        return CommandResult(end.code, await self._logged(unit))

    async def begin_persistent(self, command: HostCommand) -> None:
        """Begin and do not wait."""
        properties = _properties(command, persistent=True)
        await transient.begin(self._host, f"{command.name}.service", properties)

    async def ended(self, name: str) -> CommandResult | None:
        """None while it runs. Raises NoSuchUnit when it never began, or was forgotten."""
        unit = f"{name}.service"
        end = await transient.ended(self._host, unit)
        return None if end is None else CommandResult(end.code, await self._logged(unit))

    async def _logged(self, unit: str) -> str:
        """What it wrote, as far as the journal has it. Its name is of one request alone."""
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
            # What it left running may hold the other end; that is no reason to wait for it.
            await asyncio.wait({reading}, timeout=DRAIN_SECONDS)
            reading.cancel()
        if end.timed_out:
            raise TimeoutError
        return CommandResult(end.code, tail.text)


class _Tail:
    """The end of what comes out of a pipe."""

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
    """Older versions of systemd want a full path, and tools lie in other folders elsewhere."""
    plain = [word.replace("$", "$$") for word in argv]  # systemd puts variables in for $NAME
    if argv[0].startswith("/"):
        return [argv[0], plain, False]
    return ["/usr/bin/env", ["/usr/bin/env", *plain], False]
