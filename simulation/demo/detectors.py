"""node-problem-detector on every simulated host: conditions and Events in its format and timing.

Checks are polled (a health checker every 10 s), so a fault shows after up to one interval, and its
end after up to one more. Conditions from the kernel log are latched: they end when the detector
restarts at the next boot. On each start every condition is posted as False.

Source of the format and texts: node-problem-detector config/*.json and a recording of a running
one. A changed condition also gives an Event; the heartbeat comes every 5 minutes.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from kubenode.runtime.clock import Clock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import STRATEGIC_PATCH, Kube
from kubenode.runtime.kube.errors import KubeError
from simulation.demo.agenda import Agenda
from simulation.demo.fleet import condition, whole_seconds
from simulation.demo.hosts import CHRONY, CONTAINERD, KUBELET, DemoHost, Mark

HEARTBEAT = 300.0
BUSIEST = 100.0
"""Heartbeats per second of the whole fleet; above this rate the interval becomes longer."""
LONGEST = 480.0
"""The longest interval in seconds of a real fleet, below the library's `maxAge` of 10 minutes."""
EVENTS_NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class DemoCheck:
    """A condition and how it is checked.

    source: the component that reports it.
    every: seconds between two checks.
    healthy, faulty: reason and message.
    wrong: whether the host has the fault.
    """

    type: str
    source: str
    every: float
    healthy: tuple[str, str]
    faulty: tuple[str, str]
    wrong: Callable[[DemoHost], bool]


def _ill(unit: str) -> Callable[[DemoHost], bool]:
    return lambda host: unit in host.ill


def _marked(mark: Mark) -> Callable[[DemoHost], bool]:
    return lambda host: mark in host.marks


LATCHED = frozenset(mark.value for mark in Mark)

CHECKS = (
    DemoCheck(
        "KubeletUnhealthy", "health-checker", 10.0,
        ("KubeletIsHealthy", "kubelet on the node is functioning properly"),
        ("KubeletUnhealthy", "kubelet:kubelet was found unhealthy; repair flag : false"),
        _ill(KUBELET),
    ),
    DemoCheck(
        "ContainerRuntimeUnhealthy", "health-checker", 10.0,
        ("ContainerRuntimeIsHealthy", "Container runtime on the node is functioning properly"),
        ("ContainerdUnhealthy", "cri:containerd was found unhealthy; repair flag : false"),
        _ill(CONTAINERD),
    ),
    DemoCheck(
        "NTPProblem", "ntp-custom-plugin-monitor", 30.0,
        ("NTPIsUp", "ntp service is up"),
        ("NTPIsDown", "NTP service is not running"),
        _ill(CHRONY),
    ),
    DemoCheck(
        "KernelDeadlock", "kernel-monitor", 1.0,
        ("KernelHasNoDeadlock", "kernel has no deadlock"),
        ("DockerHung", "INFO: task docker:20744 blocked for more than 120 seconds."),
        _marked(Mark.KERNEL_DEADLOCK),
    ),
    DemoCheck(
        "ReadonlyFilesystem", "readonly-monitor", 1.0,
        ("FilesystemIsNotReadOnly", "Filesystem is not read-only"),
        ("FilesystemIsReadOnly", "EXT4-fs (sda1): Remounting filesystem read-only"),
        _marked(Mark.READONLY_FILESYSTEM),
    ),
)  # fmt: skip


@dataclass(slots=True)
class _Report:
    wrong: bool
    since: datetime


@dataclass(slots=True)
class _DetectorState:
    boot_id: str
    reports: dict[str, _Report] = field(default_factory=dict)
    sending: asyncio.Lock = field(default_factory=asyncio.Lock)


class DemoDetectors:
    """The detectors of all hosts. Reports are sent on one Agenda, heartbeats on another.

    signalled: called with the node name when the API server has stored a report of a fault.
    withdrawn: called with the node name when the API server has stored the end of the fault.
    """

    def __init__(
        self,
        kube: Kube,
        hosts: list[DemoHost],
        agenda: Agenda,
        routine: Agenda,
        clock: Clock,
        speed: float,
        signalled: Callable[[str], None],
        withdrawn: Callable[[str], None],
        rng: random.Random,
    ) -> None:
        self._kube = kube
        self._agenda = agenda
        self._routine = routine
        self._clock = clock
        self._speed = speed
        self._signalled = signalled
        self._withdrawn = withdrawn
        self._rng = rng
        self._states: dict[str, _DetectorState] = {}
        self.heartbeat = min(max(HEARTBEAT, len(hosts) / BUSIEST * speed), LONGEST) / speed

    async def start(self, host: DemoHost) -> None:
        """Post every condition as False, and start the heartbeats."""
        now = self._time_on(host)
        reports = {check.type: _Report(False, now) for check in CHECKS}
        self._states[host.name] = _DetectorState(host.boot_id, reports)
        await self._post(host, list(CHECKS))
        first = self._rng.uniform(0, self.heartbeat)
        self._routine.every(self.heartbeat, lambda: self.beat(host), first=first)

    def schedule_checks(self, host: DemoHost) -> None:
        """Schedule the checks that will notice a change of the host."""
        state = self._states.get(host.name)
        if state is None or not host.answers:
            return
        if state.boot_id != host.boot_id:
            self._agenda.soon(2.0 / self._speed, lambda: self._restart(host))
            return
        for check in CHECKS:
            if check.wrong(host) != state.reports[check.type].wrong:
                delay = self._rng.uniform(0, check.every) / self._speed
                self._agenda.soon(delay, partial(self._check, host, check))

    async def _check(self, host: DemoHost, check: DemoCheck) -> None:
        if not host.answers:
            return
        state = self._states[host.name]
        wrong, latched = check.wrong(host), check.type in LATCHED
        report = state.reports[check.type]
        if wrong == report.wrong or (latched and not wrong):
            return
        state.reports[check.type] = _Report(wrong, self._time_on(host))
        try:
            await self._post(host, [check])
        except KubeError:
            state.reports[check.type] = report  # it was not stored: the agenda runs the check again
            raise
        (self._signalled if wrong else self._withdrawn)(host.name)
        reason, message = check.faulty if wrong else check.healthy
        status = "True" if wrong else "False"
        text = (
            f'Node condition {check.type} is now: {status}, reason: {reason}, message: "{message}"'
        )
        await self.event(host, check.source, reason, text, "Warning" if wrong else "Normal")

    async def _restart(self, host: DemoHost) -> None:
        state = self._states[host.name]
        if state.boot_id == host.boot_id or not host.answers:
            return
        state.boot_id = host.boot_id
        now = self._time_on(host)
        state.reports = {check.type: _Report(False, now) for check in CHECKS}
        await self._post(host, list(CHECKS))
        self._withdrawn(host.name)
        self.schedule_checks(host)

    async def beat(self, host: DemoHost) -> None:
        """Post all conditions as they were last reported."""
        if not host.answers or self._states[host.name].boot_id != host.boot_id:
            return
        await self._post(host, list(CHECKS))

    def _time_on(self, host: DemoHost) -> datetime:
        return self._clock.now() + host.clock_ahead

    async def _post(self, host: DemoHost, checks: list[DemoCheck]) -> None:
        state = self._states[host.name]
        # A detector sends one report at a time, so an older one never replaces a newer one.
        async with state.sending:
            now = self._time_on(host)
            conditions = []
            for check in checks:
                report = state.reports[check.type]
                reason, message = check.faulty if report.wrong else check.healthy
                status = "True" if report.wrong else "False"
                conditions.append(
                    condition(
                        check.type, status, reason, message, heartbeat_at=now, since=report.since
                    )
                )
            body = {"status": {"conditions": conditions}}
            await self._kube.patch(paths.node(host.name, "status"), body, STRATEGIC_PATCH)

    async def event(
        self, host: DemoHost, source: str, reason: str, message: str, type_: str = "Warning"
    ) -> None:
        """Create a core/v1 Event of the node, as node-problem-detector does."""
        now = whole_seconds(self._time_on(host))
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{host.name}.{self._rng.getrandbits(64):016x}",
                "namespace": EVENTS_NAMESPACE,
            },
            "type": type_,
            "reason": reason,
            "message": message,
            "source": {"component": source, "host": host.name},
            "reportingComponent": source,
            "reportingInstance": host.name,
            "involvedObject": {"kind": "Node", "name": host.name, "apiVersion": "v1"},
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
        }
        await self._kube.create(paths.events(EVENTS_NAMESPACE), body)
