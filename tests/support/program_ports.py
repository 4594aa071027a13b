"""Every port that KubeNode's programs open, and the programs as people start them."""

import ssl
from dataclasses import dataclass
from pathlib import Path

from support.command import COMMAND
from support.daemons import Daemon, free_port


@dataclass(frozen=True)
class Port:
    """flag     of the port, "" for /metrics and /healthz
    path     where bodies are taken
    """

    program: str
    flag: str
    path: str
    method: str = "POST"
    tls: bool = True

    def __str__(self) -> str:
        return f"{self.program} {self.flag} {self.path}"


PORTS = [
    Port("all", "health-port", "/metrics", "GET", tls=False),
    Port("all", "listen-port", "/v1/permits"),
    Port("all", "guard-port", "/validate/nodes"),
    Port("all", "guard-port", "/validate/evictions"),
    Port("all", "dashboard-port", "/login"),
    Port("all", "webhook-port", "/validate/noderemediers"),
    Port("all", "webhook-port", "/mutate/remedyoperationjobs"),
    Port("all", "host-doctor-port", "/v1/alertmanager"),
    Port("all", "host-doctor-port", "/v1/hosts/a/bundles/b.tar.gz", "PUT"),
    Port("machine", "webhook-port", "/validate/machines"),
    Port("machine", "health-port", "/healthz", "GET", tls=False),
    Port("insight", "insight-port", "/v1/events", tls=False),
    Port("insight", "health-port", "/healthz", "GET", tls=False),
    Port("captain", "health-port", "/healthz", "GET", tls=False),
]


class ProgramPorts:
    """A program and its ports."""

    def __init__(self, program: str, folder: Path, *more: str) -> None:
        self.ports = {p.flag: free_port() for p in PORTS if p.program == program}
        flags = [f"--{flag}={port}" for flag, port in self.ports.items()]
        command = [COMMAND, "run", program]
        log = folder / f"{program}.log"
        self.daemon = Daemon(program, [*command, *flags, *more], log)

    @property
    def memory(self) -> int:
        """Bytes resident, of the process without its children."""
        status = Path(f"/proc/{self.daemon.pid}/status").read_text()
        [line] = [line for line in status.splitlines() if line.startswith("VmRSS")]
        return int(line.split()[1]) * 1024


def anyone() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
