"""A simulated host behind the port by which the real agent acts on hosts."""

import random
import uuid
from collections.abc import Callable, Mapping

from agent.host import HostError, NoSuchUnit, Unit, UnitVerb
from agent.host.ports import Ports, TimeState
from agent.probes import Answer, CannotAnswer, Value
from agent.probes.peers import CONNECT_SECONDS
from kubenode.runtime.clock import Clock
from simulation.demo.hosts import CHRONY, CONTAINERD, KUBELET, UNITS, By, DemoHost, HostAct, Mark
from simulation.hosts.host import SimulatedHost, SimulatedTime

RESTART = (1.0, 8.0)
"""Seconds of a real fleet that the restart of a unit takes."""


class DemoMachine:
    """Implements agent.host.Host and agent.probes.Probes.

    A unit that hangs is still `active` for systemd.

    answers: whether the host with an address answers.
    """

    def __init__(
        self,
        host: DemoHost,
        clock: Clock,
        speed: float,
        rng: random.Random,
        answers: Callable[[str], bool] = lambda address: False,
    ) -> None:
        self._host = host
        self._answers = answers
        self._clock = clock
        self._speed = speed
        self._rng = rng
        self._invocations = dict.fromkeys(UNITS, "")
        self.ports: Ports = SimulatedHost(time=_Time(host, clock)).ports()

    @property
    def name(self) -> str:
        return self._host.name

    def boot_id(self) -> str:
        return self._host.boot_id

    async def unit(self, name: str) -> Unit:
        self._known(name)
        invocation = self._invocations[name] or uuid.UUID(self._host.boot_id).hex
        return Unit(name, "active", "running", invocation=invocation)

    async def reset_failed(self, name: str) -> None:
        self._known(name)

    async def unit_job(self, verb: UnitVerb, name: str, timeout: float) -> None:  # noqa: ASYNC109
        self._known(name)
        if verb not in (UnitVerb.RESTART, UnitVerb.START):
            raise HostError(f"{verb.value} {name}: not simulated")
        takes = self._rng.uniform(*RESTART) / self._speed
        if takes > timeout:
            await self._clock.sleep(timeout)
            raise HostError(f"{verb.value} {name}: not done within {timeout:g} s")
        await self._clock.sleep(takes)
        if verb is UnitVerb.RESTART:
            self._invocations[name] = f"{self._rng.getrandbits(128):032x}"
            self._host.restart(name, self._clock.monotonic())

    async def reboot(self) -> None:
        self._host.acted(HostAct(self._clock.monotonic(), self._host.name, "Reboot", ""))
        self._host.reboots(self._host, By.AGENT)

    async def answer(self, name: str, args: Mapping[str, str]) -> Answer:
        host = self._host
        match name:
            case "host":
                fields: dict[str, Value] = {"agent": "alive", "platform": "vm"}
                fields["kubelet_state"] = "hung" if KUBELET in host.ill else "running"
                fields["runtime_state"] = "hung" if CONTAINERD in host.ill else "ok"
                fields["time_unit"] = "failed" if CHRONY in host.ill else "active"
                fields["d_state_process"] = Mark.KERNEL_DEADLOCK in host.marks
                return fields
            case "clock":
                return {"synchronized": CHRONY not in host.ill}
            case "disk":
                return {"used_pct": 40.0, "inodes_used_pct": 5.0, "space_ok": True}
            case "write":
                ill = Mark.READONLY_FILESYSTEM in host.marks
                return {"write_test": "erofs" if ill else "ok", "write_test_path": "/var/lib"}
            case "peers":
                return {
                    "reached": await self._reaches(args.get("address", "")),
                    "control": await self._reaches(args.get("controlAddress", "")),
                }
            case _:
                raise CannotAnswer(f"{name}: not simulated")

    async def _reaches(self, address: str) -> bool:
        """Return whether the host with this address answers.

        A host that does not costs a timeout.
        """
        answers = self._answers(address)
        if not answers:
            await self._clock.sleep(CONNECT_SECONDS / self._speed)
        return answers

    def _known(self, name: str) -> None:
        if name not in UNITS:
            raise NoSuchUnit(f"unit {name} is not-found on this host")


class _Time(SimulatedTime):
    """The clock of a host on which chrony may have failed; `measure` restarts chrony."""

    def __init__(self, host: DemoHost, clock: Clock) -> None:
        super().__init__()
        self._host, self._clock = host, clock

    async def state(self) -> TimeState:
        well = CHRONY not in self._host.ill
        return TimeState(CHRONY, 0.0 if well else None, well, self.sources)

    async def measure(self) -> None:
        self._host.restart(CHRONY, self._clock.monotonic())
