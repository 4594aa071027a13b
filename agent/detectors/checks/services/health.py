"""Checks whether a service of the node answers: the kubelet, the container runtime, kube-proxy.

The check asks the service first, and reads its unit only if it does not answer, so that a healthy
service costs one local request. A service that just started has a grace time in which it is neither
healthy nor faulty. A detector does not repair: rules decide, under risk control.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from agent.detectors.checks import Finding, Findings
from agent.detectors.checks.services import cri
from agent.host import Host, HostError, NoSuchUnit, Unit
from agent.host.files import OWN_FILES, HostRoot
from agent.probes import CannotAnswer
from kubenode.runtime.clock import Clock

STARTING, NO_SERVICE = "ServiceStarting", "NoSuchService"


@dataclass(frozen=True, slots=True)
class HealthAnswer:
    """A service's answer. ok: it is that of a healthy service; message: the request and its
    answer.
    """

    ok: bool
    message: str


@dataclass(frozen=True, slots=True)
class MonitoredService:
    """A service to check.

    condition, bad, good: condition type, and the reasons of a fault and of health
    unit: its systemd unit; "" for a service that runs as a Pod
    ask: sends the request
    """

    condition: str
    bad: str
    good: str
    name: str
    unit: str
    ask: Callable[[], Awaitable[HealthAnswer]]


def judge(
    service: MonitoredService, answer: HealthAnswer, unit: Unit | None, silent: float, grace: float
) -> Finding:
    """Return the finding.

    unit: None: there is no such unit
    silent: seconds for which the service has not answered
    """
    if answer.ok:
        return Finding(False, service.good, answer.message)
    if unit is None and service.unit:
        return Finding(None, NO_SERVICE, f"{answer.message}; there is no unit {service.unit} here")
    if unit is None:
        return Finding(True, service.bad, answer.message)
    message = f"{answer.message}; {unit}"
    if unit.active in ("active", "activating", "reloading") and silent < grace:
        return Finding(None, STARTING, f"{message}, started less than {grace:g} s ago")
    return Finding(True, service.bad, message)


class ServiceHealthCheck:
    """Implements Check. grace: seconds after a start in which a missing answer is no fault.

    A service that answered after its last start has no grace. The grace counts from the first
    missing answer, so a service that restarts repeatedly without answering gets it only once.
    """

    def __init__(self, service: MonitoredService, host: Host, clock: Clock, grace: float) -> None:
        self.name = f"{service.name}-health"
        self.conditions = (service.condition,)
        self._service, self._host, self._clock, self._grace = service, host, clock, grace
        self._answered: str | None = None  # invocation that has answered; None: not read
        self._silent_since: float | None = None

    async def inspect(self) -> Findings:
        answer = await self._service.ask()
        if answer.ok:
            await self._well()
            return {self._service.condition: judge(self._service, answer, None, 0.0, 0.0)}
        now = self._clock.monotonic()
        unit = await self._unit() if self._service.unit else None
        if self._silent_since is None:
            self._silent_since = now
        started = unit is not None and unit.invocation != self._answered
        grace = self._grace if started else 0.0
        finding = judge(self._service, answer, unit, now - self._silent_since, grace)
        return {self._service.condition: finding}

    async def _well(self) -> None:
        """Record which start of the unit has answered; read the unit once for each start."""
        if self._service.unit and (self._silent_since is not None or self._answered is None):
            with contextlib.suppress(CannotAnswer):
                unit = await self._unit()
                self._answered = unit.invocation if unit else ""
        self._silent_since = None

    async def _unit(self) -> Unit | None:
        try:
            return await self._host.unit(self._service.unit)
        except NoSuchUnit:
            return None
        except HostError as error:
            raise CannotAnswer(f"{self._service.unit}: {error}") from error


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def http(
    port: int, seconds: float, host: str = "127.0.0.1"
) -> Callable[[], Awaitable[HealthAnswer]]:
    """Return a request of GET /healthz, which the kubelet and kube-proxy answer."""
    tried = f"GET http://{host}:{port}/healthz"
    return lambda: _get(tried, "/healthz", lambda: asyncio.open_connection(host, port), seconds)


def docker_ping(
    socket: str, seconds: float, files: HostRoot
) -> Callable[[], Awaitable[HealthAnswer]]:
    tried = f"GET /_ping over {socket}"

    def connect() -> Awaitable[Streams]:
        return asyncio.open_unix_connection(files.path(socket))

    return lambda: _get(tried, "/_ping", connect, seconds)


async def _get(
    tried: str, path: str, connect: Callable[[], Awaitable[Streams]], seconds: float
) -> HealthAnswer:
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await connect()
            try:
                writer.write(request)
                line = await reader.readline()
            finally:
                writer.transport.abort()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
    except TimeoutError:
        return HealthAnswer(False, f"{tried}: no answer within {seconds:g} s")
    except (OSError, ValueError) as error:
        return HealthAnswer(False, f"{tried}: {getattr(error, 'strerror', None) or error}")
    fields = line.decode(errors="replace").split()
    code = fields[1] if len(fields) > 1 else "no answer"
    return HealthAnswer(code == "200", f"{tried}: {code}")


def runtime(
    socket: str, seconds: float, files: HostRoot = OWN_FILES
) -> Callable[[], Awaitable[HealthAnswer]]:
    """Return a CRI call Status. Only RuntimeReady counts; the kubelet reports the network's
    state.
    """

    async def ask() -> HealthAnswer:
        try:
            ready = await cri.status(socket, seconds, files)
        except cri.NoAnswer as error:
            return HealthAnswer(False, str(error))
        for condition in ready:
            if condition.kind == "RuntimeReady" and not condition.ok:
                return HealthAnswer(
                    False, f"Status over {socket}: RuntimeReady is false: {condition.why}"
                )
        return HealthAnswer(True, f"Status over {socket}: RuntimeReady")

    return ask


@dataclass(frozen=True, slots=True)
class Runtime:
    """A known container runtime. reason: of its fault."""

    unit: str
    socket: str
    reason: str


RUNTIMES = (
    Runtime("containerd.service", "/run/containerd/containerd.sock", "ContainerdUnhealthy"),
    Runtime("crio.service", "/run/crio/crio.sock", "CrioUnhealthy"),
    Runtime("cri-docker.service", "/run/cri-dockerd.sock", "DockerUnhealthy"),
)


def which_runtime(
    socket: str = "", root: str = "/", known: Sequence[Runtime] = RUNTIMES
) -> Runtime:
    """Return the host's runtime: the one of `socket`, else the first installed one, else
    containerd.

    A runtime is installed if its socket or unit file exists.
    """
    if socket:
        named = next((candidate for candidate in known if candidate.socket == socket), None)
        return named or Runtime("", socket, "ContainerRuntimeUnhealthy")
    folders = ("etc/systemd/system", "usr/lib/systemd/system", "lib/systemd/system")
    files = HostRoot(root)
    for candidate in known:
        places = [
            candidate.socket.lstrip("/"),
            *(f"{folder}/{candidate.unit}" for folder in folders),
        ]
        if any(files.exists(place) for place in places):
            return candidate
    return known[0]


def kubelet(port: int, seconds: float) -> MonitoredService:
    return MonitoredService(
        *("KubeletUnhealthy", "KubeletUnhealthy", "KubeletIsHealthy"),
        *("kubelet", "kubelet.service", http(port, seconds)),
    )


def kube_proxy(port: int, seconds: float) -> MonitoredService:
    return MonitoredService(
        *("KubeProxyUnhealthy", "KubeProxyUnhealthy", "KubeProxyIsHealthy"),
        *("kube-proxy", "", http(port, seconds)),
    )


def docker(seconds: float, root: str = "/") -> MonitoredService:
    return MonitoredService(
        *("ContainerRuntimeUnhealthy", "DockerUnhealthy", "ContainerRuntimeIsHealthy"),
        *("runtime", "docker.service", docker_ping("/run/docker.sock", seconds, HostRoot(root))),
    )


def container_runtime(chosen: Runtime, seconds: float, root: str = "/") -> MonitoredService:
    return MonitoredService(
        *("ContainerRuntimeUnhealthy", chosen.reason, "ContainerRuntimeIsHealthy"),
        *("runtime", chosen.unit, runtime(chosen.socket, seconds, HostRoot(root))),
    )
