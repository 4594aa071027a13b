"""Builds detectors for the built-in checks that the settings enable.

Building starts nothing. It only looks for the host's container runtime and GPU driver.
"""

import asyncio
import logging
import os
from collections.abc import Collection, Iterator
from functools import partial

from agent.detectors import Detector, Sink
from agent.detectors.checks import Check
from agent.detectors.checks.detector import CheckDetector, Reading, Turns
from agent.detectors.checks.host import (
    certificates,
    gpu,
    mounts,
    reboot,
    space,
    tables,
    tasks,
    time,
)
from agent.detectors.checks.host.pressure import NAMES, Pressure, PressureDetector
from agent.detectors.checks.host.smart import Smart
from agent.detectors.checks.host_unit import Unconfined
from agent.detectors.checks.programs import Programs, Runner
from agent.detectors.checks.services import health
from agent.detectors.checks.services.bus import SystemdListener
from agent.detectors.checks.services.restarts import condition
from agent.detectors.checks.services.units import UnitFlaps
from agent.detectors.checks.steady import Rounds
from agent.detectors.checks.wakeups import Waking
from agent.detectors.settings import Detectors
from agent.host import Host
from agent.host.files import SYSTEM_BUS, HostRoot
from agent.host.systemd import SystemdHost
from agent.probes import readings

log = logging.getLogger(__name__)

HEALTH = Rounds(to_set=3, to_clear=2)
LEVELS = Rounds(to_set=2, to_clear=2)
CLOCK = Rounds(to_set=3, to_clear=2)
HUNG = Rounds(to_set=2, to_clear=1)


def runner(host: Host, root: str = "/") -> Runner:
    """Return a runner that uses systemd, outside the agent's sandbox, where systemd runs."""
    if isinstance(host, SystemdHost) and HostRoot(root).exists(SYSTEM_BUS):
        return Unconfined(host)
    return Programs(root)


def builtins(
    given: Detectors, host: Host, turns: Turns, taken: Collection[str] = (), root: str = "/"
) -> list[Detector]:
    """Return the enabled detectors. taken: conditions that others own.

    Nothing here reports a condition in `taken`; the log says which.
    """
    enabled: list[Detector] = []
    own = _host(given, turns, runner(host, root), root)
    for detector in (*_services(given, host, turns, taken, root), *own):
        if both := sorted(set(detector.conditions) & set(taken)):
            extra = {"detector": detector.name, "conditions": ", ".join(both)}
            log.info("a built-in check leaves conditions to another detector", extra=extra)
            if not isinstance(detector, CheckDetector) or set(detector.conditions) <= set(taken):
                continue
            detector.leave(taken)
        enabled.append(detector)
    return enabled


def _services(
    given: Detectors, host: Host, turns: Turns, taken: Collection[str], root: str
) -> Iterator[Detector]:
    def healthy(service: health.MonitoredService, every: float, grace: float) -> Detector:
        check = health.ServiceHealthCheck(service, host, turns.clock, grace)
        return CheckDetector(check, turns, every, HEALTH)

    if (kubelet := given.kubelet).enabled:
        service = health.kubelet(kubelet.port, kubelet.timeout_seconds)
        yield healthy(service, kubelet.every_seconds, kubelet.grace_seconds)
    if (runtime := given.runtime).enabled:
        chosen = health.which_runtime(runtime.socket, root)
        service = health.container_runtime(chosen, runtime.timeout_seconds, root)
        yield healthy(service, runtime.every_seconds, runtime.grace_seconds)
    if (proxy := given.kube_proxy).enabled:
        service = health.kube_proxy(proxy.port, proxy.timeout_seconds)
        yield healthy(service, proxy.every_seconds, 0.0)
    if (units := given.units).enabled:
        names = [unit for unit in units.names if condition(unit) not in taken]
        if names:
            limits = units.restarts, units.within_seconds
            yield UnitFlaps(names, *limits, SystemdListener(HostRoot(root).bus_address()), turns)


def _host(given: Detectors, turns: Turns, programs: Runner, root: str) -> Iterator[Detector]:
    def reading(check: Check, every: float, rounds: Rounds) -> Detector:
        return CheckDetector(check, turns, every, rounds)

    near = Programs() if root == "/" else programs  # the agent itself can run these programs
    if (table := given.tables).enabled:
        limits = table.files_pct, table.tasks_pct, table.conntrack_pct
        read = tables.Tables(*limits, root=root).inspect
        yield reading(Reading("tables", tables.CONDITIONS, read), table.every_seconds, LEVELS)
    if (disk := given.disk).enabled:
        read = space.Space(disk.folders, disk.used_pct, disk.inodes_pct, root).inspect
        yield reading(Reading("disk", (space.CONDITION,), read), disk.every_seconds, LEVELS)
    if given.mounts.enabled:
        yield MountDetector(turns, given.mounts.every_seconds, root)
    if (clock := given.clock).enabled:
        check = time.Clocks(clock.offset_seconds, readings.clock, time.chronyc(near))
        yield reading(check, clock.every_seconds, CLOCK)
    if (certs := given.certificates).enabled:
        read = certificates.Certificates(certs.files, certs.days, turns.clock, root).inspect
        kinds = (certificates.CONDITION,)
        yield reading(Reading("certificates", kinds, read), certs.every_seconds, Rounds())
    if (task := given.tasks).enabled:
        read = tasks.Tasks(task.hung, task.zombies, root).inspect
        yield reading(Reading("tasks", tasks.CONDITIONS, read), task.every_seconds, HUNG)
    if (pressure := given.pressure).enabled:
        limits_ = (pressure.memory_pct, pressure.io_pct, pressure.cpu_pct)
        for resource, limit in zip(NAMES, limits_, strict=True):
            if limit:
                yield PressureDetector(Pressure(resource, limit, root), turns)
    if (pending := given.reboot).enabled:
        restart = reboot.RebootCheck(pending.file, programs, root)
        yield reading(restart, pending.every_seconds, Rounds())
    if (smart := given.smart).enabled:
        yield reading(Smart(smart.devices, smart.sectors, programs), smart.every_seconds, Rounds())
    if given.gpu.enabled and HostRoot(root).exists(gpu.DRIVER):
        read = gpu.GpuCheck(
            given.gpu.expected, partial(gpu.host_nvml, HostRoot(root)), root
        ).inspect
        yield reading(Reading("gpu", gpu.CONDITIONS, read), given.gpu.every_seconds, LEVELS)


class MountDetector:
    """Checks mounts when the kernel reports a change, and periodically for unreported changes."""

    def __init__(self, turns: Turns, every: float, root: str = "/") -> None:
        self._mounts = mounts.Mounts(root)
        self.woken = asyncio.Event()
        reading = Reading("mounts", (mounts.CONDITION,), self._mounts.inspect)
        self._detector = CheckDetector(reading, turns, every, wake=self.woken)
        self.name, self.conditions = reading.name, reading.conditions

    async def run(self, sink: Sink) -> None:
        waking = self._watch()
        try:
            await self._detector.run(sink)
        finally:
            if waking is not None:
                waking.close()

    def _watch(self) -> Waking | None:
        """Return what wakes the detector; None if the kernel cannot."""
        fd = -1
        try:
            fd = os.open(self._mounts.path, os.O_RDONLY | os.O_CLOEXEC)
            return Waking(fd, self.woken)
        except OSError as error:
            if fd >= 0:
                os.close(fd)
            log.info("mounts wake nobody, looking at intervals", extra={"error": str(error)})
            return None
