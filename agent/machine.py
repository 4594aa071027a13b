"""Publishes facts about this host in the status of the Machine with the agent's name.

It writes at the start and periodically after that. The API server ignores an unchanged patch, and a
Machine may be created, or created again, while the agent runs.
"""

import logging
import platform
import random
from collections.abc import Mapping

from agent.host.files import HostRoot
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import KubeError, NotFound
from kubenode.runtime.kube.paths import custom
from kubenode.runtime.rate import Spread

log = logging.getLogger(__name__)

PLURAL = "machines"
AGAIN_SECONDS = 1800.0
MISSING_SECONDS = 300.0
RETRY_SECONDS = 30.0
OS_RELEASE = "/etc/os-release"
LONGEST = 63
_ARCH = {"x86_64": "amd64", "aarch64": "arm64"}


def host(boot_id: str, agent: str, root: str = "/") -> Mapping[str, str]:
    """Return `status.host`. root: where the host's files are, `/host` in a DaemonSet."""
    fields = {
        "bootID": boot_id,
        "os": _os(HostRoot(root)),
        "kernel": platform.release(),
        "arch": arch(),
        "agent": agent,
    }
    return {name: value[:LONGEST] for name, value in fields.items() if value}


def arch() -> str:
    """Return the architecture as Go and Kubernetes name it."""
    machine = platform.machine()
    return _ARCH.get(machine, machine)


def _os(files: HostRoot) -> str:
    """Return the operating system, such as `debian-12`; "" if the file does not tell."""
    try:
        lines = files.read_text(OS_RELEASE).splitlines()
    except OSError:
        return ""
    values = dict(line.split("=", 1) for line in lines if "=" in line)
    parts = (values.get(name, "").strip("\"'") for name in ("ID", "VERSION_ID"))
    return "-".join(part for part in parts if part)


class HostReporter:
    """Part: publishes `status.host`."""

    name = "machine"

    def __init__(
        self,
        kube: Kube,
        agent: str,
        host: Mapping[str, str],
        clock: Clock,
        *,
        spread: Spread = random.random,
    ) -> None:
        self._kube, self._path = kube, custom(PLURAL, agent, "status")
        self._host, self._clock, self._spread = host, clock, spread
        self._trouble = ""

    async def run(self) -> None:
        while True:
            seconds = await self.tell()
            await self._clock.sleep(seconds * (0.9 + 0.2 * self._spread()))

    async def tell(self) -> float:
        """Write the status once; return the seconds until the next time."""
        try:
            await self._kube.patch(self._path, {"status": {"host": dict(self._host)}})
        except NotFound:
            return MISSING_SECONDS  # no Machine, or a cluster without the CRD
        except KubeError as error:
            if (text := str(error)) != self._trouble:
                self._trouble = text
                log.warning("the machine's status is not written", extra={"error": text})
            return max(RETRY_SECONDS, error.retry_after or 0.0)
        self._trouble = ""
        return AGAIN_SECONDS
