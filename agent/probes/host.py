"""The answers of a real host. Probes that only a provider can answer are refused."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from agent.host import Host, HostError
from agent.host.ports import CHRONY, TimeService
from agent.patience import Patience
from agent.probes import Answer, CannotAnswer, Value, readings, services
from agent.probes.diagnostics import Diagnostics
from agent.probes.peers import peers

READ_SECONDS = 10.0
DAEMON_SECONDS = 8.0

NO_ARGS: Mapping[str, str] = {}


class HostProbes:
    """Implements Probes.

    state_dir  a folder of ours on the disk that is asked about; also where writing is tried
    root       where the host's files are seen
    diagnostics  who makes bundles for people; None: nobody
    time       who keeps the clock; None: only the kernel is asked
    """

    def __init__(
        self,
        host: Host,
        state_dir: str,
        root: str = "/",
        diagnostics: Diagnostics | None = None,
        time: TimeService | None = None,
    ) -> None:
        self._diagnostics, self._time = diagnostics, time
        self._host, self._state_dir, self._root = host, state_dir, root
        self._patience = Patience()
        self._known: Mapping[str, Callable[[], Awaitable[Answer]]] = {
            "host": self._about,
            "clock": self._clock,
            "disk": lambda: self._read(lambda: readings.disk(root), "disk"),
            "write": lambda: self._read(lambda: readings.write(state_dir), "write test"),
        }

    async def answer(self, name: str, args: Mapping[str, str] = NO_ARGS) -> Answer:
        if name == "peers":
            return await peers(args)
        if name == "diagnostics" and self._diagnostics is not None:
            return await self._diagnostics.answer(args)
        probe = self._known.get(name)
        if probe is None:
            known = ", ".join(sorted((*self._known, "peers")))
            raise CannotAnswer(f"an agent of this version answers {known}, not {name}")
        return await probe()

    async def _read(self, reading: Callable[[], Answer], what: str) -> Answer:
        return await self._patience.wait_for(reading, READ_SECONDS, what)

    async def _clock(self) -> Answer:
        """chrony slews the clock itself: the kernel's offset stays 0 then, and its flag may stay
        unsynchronised, so chrony is asked. ntpd and systemd-timesyncd let the kernel slew. Where
        nobody tells who keeps the clock, an offset of exactly 0 is unknown.
        """
        if self._time is None:
            return await self._read(readings.clock, "clock")
        try:
            async with asyncio.timeout(DAEMON_SECONDS):
                state = await self._time.state()
        except (HostError, TimeoutError):
            answer = dict(await self._read(readings.clock, "clock"))
            if answer.get("offset_s") == 0:
                del answer["offset_s"]
            return answer
        if state.service not in CHRONY:
            return await self._read(readings.clock, "clock")
        if not state.synchronised or state.offset is None:
            return {"synchronized": state.synchronised}
        return {"synchronized": True, "offset_s": abs(state.offset)}

    async def _about(self) -> Answer:
        answer: dict[str, Value] = {"agent": "alive"}
        answer.update(await self._read(lambda: readings.kernel(self._root), "kernel"))
        answer["d_state_process"] = await self._patience.wait_for(
            lambda: readings.hangs_in_kernel(self._root), READ_SECONDS, "tasks"
        )
        found = {
            "kubelet_state": await services.kubelet(self._host),
            "runtime_state": await services.runtime(self._host),
            "time_unit": await services.time_daemon(self._host),
        }
        return answer | {name: state for name, state in found.items() if state is not None}
