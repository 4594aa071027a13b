"""Answers probes about a real host. A probe that only a provider can answer is refused.

PRODUCED declares every field that these answers may have.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from agent.host import Host, HostError
from agent.host.containers import Containers
from agent.host.files import HostRoot
from agent.host.ports import CHRONY, TimeService
from agent.patience import Patience
from agent.probes import Answer, CannotAnswer, Value, readings, services
from agent.probes.diagnostics import Diagnostics
from agent.probes.peers import peers

READ_SECONDS = 10.0
DAEMON_SECONDS = 8.0
MOUNT_SECONDS = 2.0
MOST_MOUNTS = 4
"""Maximum network mounts that are probed at once; each one that hangs blocks a thread."""
JUMP_SECONDS = 600.0
"""Seconds. A clock that was right at boot is corrected by less since then."""

PRODUCED: Mapping[str, tuple[str, ...]] = {
    "host.agent": ("alive",),
    "host.kubelet_state": services.KUBELET_STATES,
    "host.runtime_state": services.RUNTIME_STATES,
    "host.time_unit": services.TIME_STATES,
    "host.platform": ("vm", "bare_metal"),
    "host.d_state_process": (),
    "host.pid_max": (),
    "host.cgroup_count": (),
    "host.inotify_watches_max": (),
    "host.netns_count_high": (),
    "write.write_test": ("ok", "erofs"),
    "write.write_test_path": (),
    "disk.used_pct": (),
    "disk.inodes_used_pct": (),
    "disk.space_ok": (),
    "disk.images_unused_bytes": (),
    "disk.data_volumes": (),
    "clock.synchronized": (),
    "clock.offset_s": (),
    "clock.boot_clock_wrong": (),
    "mount.answers": (),
}
"""Every field that an agent answers, with the values of a text field that has a closed set."""

NO_ARGS: Mapping[str, str] = {}


class HostProbes:
    """Implements Probes.

    state_dir: the agent's folder, used for the write test
    root: where the host's files are mounted
    diagnostics: makes bundles for people; None: the probe is refused
    time: the time service; None: only the kernel is asked
    containers: the container runtime; None: unused images are unknown
    """

    def __init__(
        self,
        host: Host,
        state_dir: str,
        root: str = "/",
        diagnostics: Diagnostics | None = None,
        time: TimeService | None = None,
        containers: Containers | None = None,
    ) -> None:
        self._diagnostics, self._time, self._containers = diagnostics, time, containers
        self._host, self._state_dir, self._root = host, state_dir, root
        self._files = HostRoot(root)
        self._patience, self._mounts = Patience(), Patience(MOST_MOUNTS)
        self._known: Mapping[str, Callable[[], Awaitable[Answer]]] = {
            "host": self._about,
            "clock": self._clock,
            "disk": self._disk,
            "mount": self._mount,
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

    async def _disk(self) -> Answer:
        answer = dict(await self._read(lambda: readings.disk(self._root), "disk"))
        with contextlib.suppress(CannotAnswer):  # unknown; the rest of the answer is known
            answer["data_volumes"] = await self._patience.wait_for(
                lambda: readings.has_data_volumes(self._root), READ_SECONDS, "mounts"
            )
        if self._containers is not None:
            try:
                async with asyncio.timeout(DAEMON_SECONDS):
                    unused = await self._containers.unused_images()
            except (HostError, TimeoutError):
                return answer
            answer["images_unused_bytes"] = sum(image.size for image in unused)
        return answer

    async def _mount(self) -> Answer:
        """Whether all network mounts answer; an empty answer on a host without any."""
        points = await self._patience.wait_for(
            lambda: readings.network_mounts(self._root), READ_SECONDS, "mounts"
        )
        if not points:
            return {}
        for point in points:
            try:
                reading = partial(self._files.statvfs, point)
                await self._mounts.wait_for(reading, MOUNT_SECONDS, point)
            except CannotAnswer:
                return {"answers": False}
        return {"answers": True}

    async def _clock(self) -> Answer:
        return {**await self._offset(), **await self._boot_clock()}

    async def _boot_clock(self) -> Answer:
        if self._time is None:
            return {}
        try:
            async with asyncio.timeout(DAEMON_SECONDS):
                moved = await self._time.moved_since_boot()
        except (HostError, TimeoutError):
            return {}
        return {"boot_clock_wrong": abs(moved) > JUMP_SECONDS}

    async def _offset(self) -> Answer:
        """Probe the offset of the clock.

        chrony slews the clock itself. The kernel's offset then stays 0, and its flag may stay
        unsynchronised, so chrony is asked. ntpd and systemd-timesyncd let the kernel slew. If the
        time service is unknown, an offset of exactly 0 is unknown.
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
        service_states = {
            "kubelet_state": await services.kubelet(self._host),
            "runtime_state": await services.runtime(self._host, self._files),
            "time_unit": await services.time_daemon(self._host),
        }
        return answer | {name: state for name, state in service_states.items() if state is not None}
