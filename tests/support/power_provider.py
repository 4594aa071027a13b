"""A provider of machines that live in memory, in real time: for tests on a real API server."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from kubenode.providers.errors import NoSuchMachine
from kubenode.providers.port import Can, Power, PowerState, ProviderMachine
from kubenode.runtime.clock import SystemClock

CLOCK = SystemClock()
ALL = Can(off=True, reset=True, replace=True)
Told = Callable[[str], Awaitable[None]]


async def nothing(node: str) -> None:
    """Never comes back."""


@dataclass
class MemoryProvider:
    """boots     what the host does at a boot: a test reports its new boot ID
    replaced  what the group does with a machine that is given back
    """

    boots: Told = nothing
    replaced: Told = nothing
    can: Can = ALL
    name: str = "memory"
    state: dict[str, PowerState] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def owns(self, machine: ProviderMachine) -> bool:
        return machine.provider_id.startswith("memory://")

    async def power(self, machine: ProviderMachine) -> Power:
        state = self.state.get(machine.provider_id, PowerState.ON)
        return Power(state, f"memory says {state}", CLOCK.now())

    def _ask(self, word: str, machine: ProviderMachine, request: str) -> bool:
        """Whether it has to be done: not what a provider that remembers has done already."""
        assert request, "no request ID"
        if self.can.repeatable and request in self.requests:
            return False
        self.asked.append((word, machine.node))
        self.requests.append(request)
        return True

    async def off(self, machine: ProviderMachine, request: str) -> None:
        self._ask("off", machine, request)
        self.state[machine.provider_id] = PowerState.OFF

    async def on(self, machine: ProviderMachine, request: str) -> None:
        self._ask("on", machine, request)
        self.state[machine.provider_id] = PowerState.ON
        await self.boots(machine.node)

    async def reset(self, machine: ProviderMachine, request: str) -> None:
        if self._ask("reset", machine, request):
            await self.boots(machine.node)

    async def replace(self, machine: ProviderMachine, request: str) -> None:
        if self._ask("replace", machine, request):
            self.state[machine.provider_id] = PowerState.GONE
            await self.replaced(machine.node)

    async def approve(self, machine: ProviderMachine, event: str) -> None:
        raise NoSuchMachine(self.name, f"no event {event}")

    async def close(self) -> None:
        pass
