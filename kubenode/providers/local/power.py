"""Provider `local`: machines that the site's own command switches.

They may be virtual machines of a hypervisor, containers that boot, or anything else with a power
switch that a script can reach.

    COMMAND... state|off|on|reset MACHINE REQUEST

MACHINE is `spec.providerID` without its prefix. Its last part is the Node's name, so that no
kubelet can name the machine of another Node. `state` prints one word: on, off, starting, stopping
or gone. `off` counts as proof: the command must print it only if nothing of the machine can run or
reach a disk. The exit code says how a call ended (`ENDS`). After any other code, or a timeout, it
is unknown whether the call took effect.

`kubenode.providers.local.commands` says how the command runs. KUBENODE_NODE holds the Node's name.
"""

import re
from collections.abc import Sequence
from datetime import timedelta

from kubenode.providers.errors import (
    Busy,
    Denied,
    NoSuchMachine,
    ProviderError,
    Refused,
    Unreachable,
    Unsupported,
)
from kubenode.providers.local.commands import ProviderCommand
from kubenode.providers.messages import plain
from kubenode.providers.port import Can, Power, PowerState, ProviderMachine
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
"""Error by exit code, as in sysexits.h. 0 is success."""
_MACHINE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*){0,7}", re.ASCII)
_LONGEST = 512
_STATES = {state.value.lower(): state for state in PowerState if state is not PowerState.UNKNOWN}


class Local:
    """Provider that calls the command.

    command: program and first arguments of each call, not interpreted by a shell
    prefix: of the provider IDs that belong to it
    timeout: limit of one call
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
        self._command = ProviderCommand(NAME, command, timeout)
        self._prefix = prefix
        self._clock = clock or SystemClock()

    def owns(self, machine: ProviderMachine) -> bool:
        return machine.provider_id.startswith(self._prefix)

    async def power(self, machine: ProviderMachine) -> Power:
        output = await self._run("state", machine, "")
        word = next(iter(output.split()), "")
        state = _STATES.get(word.lower(), PowerState.UNKNOWN)
        return Power(state, plain(output) or "no word", self._clock.now())

    async def off(self, machine: ProviderMachine, request: str) -> None:
        await self._run("off", machine, request)

    async def on(self, machine: ProviderMachine, request: str) -> None:
        await self._run("on", machine, request)

    async def reset(self, machine: ProviderMachine, request: str) -> None:
        await self._run("reset", machine, request)

    async def replace(self, machine: ProviderMachine, request: str) -> None:
        raise Unsupported(self.name, "machines switched by a command are not replaced")

    async def approve(self, machine: ProviderMachine, event: str) -> None:
        raise Unsupported(self.name, "machines switched by a command have no planned events")

    async def close(self) -> None:
        """Do nothing: no connection stays open between calls."""

    def _machine(self, machine: ProviderMachine) -> str:
        """Return MACHINE for the command. Raises Refused if it could be another Node's."""
        name = machine_name(machine.provider_id, self._prefix)
        if name is None:
            message = f"providerID {machine.provider_id[:100]!r} is not {self._prefix}PLACE/NODE"
            raise Refused(self.name, message)
        if name.rpartition("/")[2] != machine.node:
            message = f"providerID {machine.provider_id} is not that of Node {machine.node}"
            raise Refused(self.name, message)
        return name

    async def _run(self, verb: str, machine: ProviderMachine, request: str) -> str:
        """Return what the command printed. Raises ProviderError."""
        ended = await self._command.run(
            verb, self._machine(machine), request, env={"KUBENODE_NODE": machine.node}
        )
        if ended.code != 0:
            raise ENDS.get(ended.code, Unreachable)(self.name, ended.message)
        return ended.output


def machine_name(provider_id: str, prefix: str) -> str | None:
    """Return PLACE/NODE of a provider ID; None if it does not have the form, or another prefix."""
    name = provider_id.removeprefix(prefix)
    fits = provider_id.startswith(prefix) and len(name) <= _LONGEST and _MACHINE.fullmatch(name)
    return name if fits else None
