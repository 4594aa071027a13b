"""Replaces the two programs that node-problem-detector's own files name.

`health-checker` kills an unresponsive service, but here only rules repair. `log-counter` counts
lines by their text, but here also by their writer. So the programs need not be on the host, and are
not run if they are.
"""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import PurePosixPath, PureWindowsPath

from agent.detectors.checks.npd import log_counter
from agent.detectors.checks.programs import Ran
from agent.detectors.checks.services.health import (
    ServiceHealthCheck,
    container_runtime,
    docker,
    kube_proxy,
    kubelet,
    which_runtime,
)
from agent.host import Host
from kubenode.runtime.clock import Clock
from kubenode.runtime.duration import seconds

Own = Callable[[], Awaitable[Ran]]
KUBELET_PORT, KUBE_PROXY_PORT = 10248, 10256


class BuiltIns:
    """Results by (program, arguments). A health check remembers its service's start."""

    def __init__(self, host: Host, clock: Clock, root: str = "/") -> None:
        self._host, self._clock, self._root = host, clock, root
        self._health: dict[tuple[str, ...], ServiceHealthCheck] = {}

    def find(self, path: str, args: Sequence[str]) -> Own | None:
        """Return the replacement; None for another program. Raises ValueError for invalid
        arguments.
        """
        flags = parse(args)
        match name(path):
            case "health-checker":
                return lambda: self._healthy(flags, tuple(args))
            case "log-counter":
                counter = log_counter.read(flags)
                return lambda: log_counter.count(counter, self._clock, self._root)
            case _:
                return None

    async def _healthy(self, flags: dict[str, str], args: tuple[str, ...]) -> Ran:
        if (check := self._health.get(args)) is None:
            check = self._health[args] = self._make(flags)
        (finding,) = (await check.inspect()).values()
        code = {False: 0, True: 1, None: 2}[finding.faulty]
        return Ran(code, finding.message)

    def _make(self, flags: dict[str, str]) -> ServiceHealthCheck:
        limit = seconds(flags.get("health-check-timeout", "10s"))
        grace = seconds(flags.get("cooldown-time", "2m"))
        match flags.get("component", "kubelet"):
            case "kubelet":
                service = kubelet(KUBELET_PORT, limit)
            case "kube-proxy":
                service = kube_proxy(KUBE_PROXY_PORT, limit)
            case "cri":
                limit = seconds(flags.get("cri-timeout", "2s"))
                socket = flags.get("cri-socket-path", "").removeprefix("unix://")
                service = container_runtime(which_runtime(socket, self._root), limit, self._root)
            case "docker":
                service = docker(limit, self._root)
            case other:
                raise ValueError(f"--component={other}: one of kubelet, kube-proxy, cri, docker")
        return ServiceHealthCheck(service, self._host, self._clock, grace)


def name(path: str) -> str:
    """Return the program's name from a Unix or Windows path."""
    given = PureWindowsPath(path) if "\\" in path else PurePosixPath(path)
    return given.name.removesuffix(".exe")


def parse(args: Sequence[str]) -> dict[str, str]:
    """Parse flags `--name=value` or `--name value`; a flag without a value is "true"."""
    flags: dict[str, str] = {}
    last = ""
    for word in args:
        if word.startswith("-"):
            last, equals, value = word.lstrip("-").partition("=")
            flags[last] = value if equals else "true"
            last = "" if equals else last
        elif last:
            flags[last], last = word, ""
    return flags
