"""Provider `local`: machines that a command of the site's own switches: virtual machines of a
hypervisor, containers that boot, anything with a power switch that a script can reach.

    COMMAND... state|off|on|reset MACHINE REQUEST

MACHINE is `spec.providerID` without its prefix; its last part is the Node's name, so that no
kubelet can name the machine of another Node. `state` prints one word: on, off, starting, stopping
or gone. `off` is proof: the command must print it only when nothing of the machine can run or
reach a disk. The end of the command says what became of it (`ENDS`); whatever else it ends with,
and no end in time, leaves open whether it took effect.

The command runs with our environment and KUBENODE_NODE, in a process group of its own, which is
killed when its time is over. It must leave nothing behind that holds its output open.
"""

import asyncio
import os
import re
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from signal import SIGKILL

from kubenode.providers.errors import (
    Busy,
    Denied,
    NoSuchMachine,
    ProviderError,
    Refused,
    Throttled,
    Unreachable,
    Unsupported,
)
from kubenode.providers.port import Can, Machine, Power, PowerState
from kubenode.providers.words import plain
from kubenode.runtime.clock import Clock, SystemClock

NAME = "local"
PREFIX = "kubenode-local://"
TIMEOUT = timedelta(seconds=30)
ENDS: dict[int, type[ProviderError]] = {
    64: Unsupported,
    68: NoSuchMachine,
    69: Unreachable,
    75: Busy,
    77: Denied,
    78: Refused,
}
"""Exit codes, as sysexits.h has them; 0 is done."""
AT_A_TIME = 16
MOST_UNDER_WAY = 256
COME_AGAIN = timedelta(seconds=5)
OUTPUT = 4096
"""Bytes of each output that are read; the rest is dropped."""

_MACHINE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*){0,7}", re.ASCII)
_LONGEST = 512
_STATES = {state.value.lower(): state for state in PowerState if state is not PowerState.UNKNOWN}


class Local:
    """command  the words that every call begins with, not interpreted by a shell
    prefix   of the provider IDs that are ours
    timeout  for one run of the command
    """

    name = NAME
    can = Can(off=True, reset=True)

    def __init__(
        self,
        command: Sequence[str],
        *,
        prefix: str = PREFIX,
        timeout: timedelta = TIMEOUT,
        clock: Clock | None = None,
    ) -> None:
        if not command:
            raise ValueError("command of provider local is empty: give the program to run")
        self._command, self._prefix = tuple(command), prefix
        self._seconds = timeout.total_seconds()
        self._clock = clock or SystemClock()
        self._slots = asyncio.Semaphore(AT_A_TIME)
        self._under_way = 0

    def owns(self, machine: Machine) -> bool:
        return machine.provider_id.startswith(self._prefix)

    async def power(self, machine: Machine) -> Power:
        said = await self._run("state", machine, "")
        word = next(iter(said.split()), "")
        state = _STATES.get(word.lower(), PowerState.UNKNOWN)
        return Power(state, plain(said) or "no word", self._clock.now())

    async def off(self, machine: Machine, request: str) -> None:
        await self._run("off", machine, request)

    async def on(self, machine: Machine, request: str) -> None:
        await self._run("on", machine, request)

    async def reset(self, machine: Machine, request: str) -> None:
        await self._run("reset", machine, request)

    async def replace(self, machine: Machine, request: str) -> None:
        raise Unsupported(self.name, "machines switched by a command are not replaced")

    async def approve(self, machine: Machine, event: str) -> None:
        raise Unsupported(self.name, "machines switched by a command have no planned events")

    async def close(self) -> None:
        """Nothing is kept open."""

    def _machine(self, machine: Machine) -> str:
        """The command's word for a machine. Raises Refused where it could be another Node's."""
        name = machine.provider_id.removeprefix(self._prefix)
        if len(name) > _LONGEST or not _MACHINE.fullmatch(name):
            told = f"providerID {machine.provider_id[:100]!r} is not {self._prefix}PLACE/NODE"
            raise Refused(self.name, told)
        if name.rpartition("/")[2] != machine.node:
            told = f"providerID {machine.provider_id} is not that of Node {machine.node}"
            raise Refused(self.name, told)
        return name

    async def _run(self, verb: str, machine: Machine, request: str) -> str:
        """What the command printed. Raises ProviderError."""
        words = (*self._command, verb, self._machine(machine), request)
        if self._under_way >= MOST_UNDER_WAY:
            told = f"{self._under_way} commands of ours are under way already"
            raise Throttled(self.name, told, COME_AGAIN)
        self._under_way += 1
        try:
            async with self._slots:
                return await self._called(words, machine.node)
        finally:
            self._under_way -= 1

    async def _called(self, words: tuple[str, ...], node: str) -> str:
        try:
            child = await _start(words, {**os.environ, "KUBENODE_NODE": node})
        except (OSError, ValueError) as error:
            told = f"command {words[0]} does not start: {error}"
            raise Unreachable(self.name, told) from error
        try:
            async with asyncio.timeout(self._seconds):
                said, complained = await asyncio.gather(_read(child.stdout), _read(child.stderr))
                code = await child.wait()
        except TimeoutError as error:
            told = f"the command did not end within {self._seconds:g} s"
            raise Unreachable(self.name, told) from error
        finally:
            await _end(child)
        if code != 0:
            kind = ENDS.get(code, Unreachable)
            words_of_it = plain(complained or said) or "without a word"
            raise kind(self.name, f"the command ended with {code}: {words_of_it}")
        return said


async def _start(words: tuple[str, ...], env: dict[str, str]) -> Process:
    """A cancelled start is waited for: what it began would go on without us."""
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *words, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=env, process_group=0
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await _end(await starting)
        raise


async def _read(stream: asyncio.StreamReader | None) -> str:
    """To the end, so that the command never waits for us; the beginning of it."""
    kept = b""
    while stream is not None and (part := await stream.read(OUTPUT)):
        kept = (kept + part)[:OUTPUT]
    return kept.decode(errors="replace").strip()


async def _end(child: Process) -> None:
    """Whatever of the command still runs, also when nobody waits for it any more."""
    if child.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, SIGKILL)
        await asyncio.shield(child.wait())
