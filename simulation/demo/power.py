"""The provider of the demo's machines: implements the production port and takes realistic time.

A machine that boots, hangs or is off does not answer: neither kubelet nor detectors nor agent. It
can be switched off by force and reset. It belongs to no group, so it cannot be replaced.
"""

import random
from collections.abc import Mapping

from kubenode.providers.errors import NoSuchMachine, Unsupported
from kubenode.providers.port import Can, Power, PowerState, ProviderMachine
from kubenode.runtime.clock import Clock
from simulation.demo.agenda import Agenda
from simulation.demo.hosts import By, DemoHost, HostAct

SCHEME = "demo://"
BOOT = (40.0, 90.0)
"""Seconds of a real fleet from the request to boot until the kubelet runs."""
OFF = (3.0, 10.0)


class Machines:
    """A Provider that also boots machines for agents and people."""

    name = "demo"
    can = Can(off=True, reset=True)

    def __init__(
        self,
        hosts: Mapping[str, DemoHost],
        agenda: Agenda,
        clock: Clock,
        speed: float,
        rng: random.Random,
    ) -> None:
        self._hosts, self._agenda = hosts, agenda
        self._clock, self._speed, self._rng = clock, speed, rng
        self._states: dict[str, PowerState] = {}
        self._booting: dict[str, int] = {}
        for host in hosts.values():
            host.reboots = self.boots

    def boots(self, host: DemoHost, by: By) -> None:
        """Take the host down now and bring it up later; a later request replaces this one.

        If a person boots the machine, it is also switched on.
        """
        host.goes_down()
        if by is By.PERSON:
            self._states[host.name] = PowerState.ON
        number = self._booting[host.name] = self._booting.get(host.name, 0) + 1

        async def up() -> None:
            if self._booting[host.name] == number:
                host.boot(by)

        self._agenda.soon(self._rng.uniform(*BOOT) / self._speed, up)

    def owns(self, machine: ProviderMachine) -> bool:
        return machine.provider_id.startswith(SCHEME)

    def _host(self, machine: ProviderMachine) -> DemoHost:
        if machine.node not in self._hosts:
            raise NoSuchMachine(self.name, f"{machine.provider_id} is unknown")
        return self._hosts[machine.node]

    async def power(self, machine: ProviderMachine) -> Power:
        state = self._states.get(self._host(machine).name, PowerState.ON)
        return Power(state, f"instance is {state.lower()}", self._clock.now())

    async def off(self, machine: ProviderMachine, request: str) -> None:
        host = self._host(machine)
        if self._states.get(host.name) in (PowerState.OFF, PowerState.STOPPING):
            return
        self._acted(host, "off")
        host.goes_down()
        self._booting[host.name] = self._booting.get(host.name, 0) + 1  # cancels a boot
        self._states[host.name] = PowerState.STOPPING

        async def dark() -> None:
            self._states[host.name] = PowerState.OFF

        self._agenda.soon(self._rng.uniform(*OFF) / self._speed, dark)

    async def on(self, machine: ProviderMachine, request: str) -> None:
        host = self._host(machine)
        if self._states.get(host.name) is PowerState.OFF:
            self._acted(host, "on")
            self._states[host.name] = PowerState.ON
            self.boots(host, By.PROVIDER)

    async def reset(self, machine: ProviderMachine, request: str) -> None:
        host = self._host(machine)
        self._acted(host, "reset")
        self.boots(host, By.PROVIDER)

    def _acted(self, host: DemoHost, word: str) -> None:
        host.acted(HostAct(self._clock.monotonic(), host.name, "power", word))

    async def replace(self, machine: ProviderMachine, request: str) -> None:
        raise Unsupported(self.name, "these machines belong to no group")

    async def approve(self, machine: ProviderMachine, event: str) -> None:
        raise Unsupported(self.name, "there are no planned events")

    async def close(self) -> None:
        pass
