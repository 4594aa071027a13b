"""Looks at a host without changing it: a script to run there, and what its answer says.

The script writes lines of a word and a value. It shows no secret: of credentials it says which kind
they are. Run as root it sees all; as somebody else it says so.
"""

import shlex
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

CURRENT = "kubelet-client-current.pem"
"""The link that a kubelet keeps on its newest certificate; its kubeconfig names it, or another."""
UNITS = (
    *("unattended-upgrades.service", "puppet.service", "chef-client.service"),
    *("salt-minion.service", "cfengine3.service", "landscape-client.service"),
    *("ansible-pull.timer", "google-osconfig-agent.service", "node-problem-detector.service"),
    *("k3s.service", "k3s-agent.service", "rke2-server.service", "rke2-agent.service"),
    *("snap.microk8s.daemon-kubelite.service", "snap.kubelet-eks.daemon.service"),
)
"""Services that change packages, files or the kubelet of a host by themselves."""

_TEXT = Path(__file__).with_name("probe.sh").read_text()


def probe_script(server: str = "", ca: str = "") -> str:
    """POSIX shell, to be given to `sh -s`; it takes some seconds at most.

    server  URL that is tried from there, with the PEM of its authority; "" tries none
    """
    parts = urlsplit(server)
    values = {
        "UNITS": " ".join(UNITS),
        "HOST": shlex.quote(parts.hostname or ""),
        "PORT": str(parts.port or 443),
        "CA": ca.strip(),
    }
    text = _TEXT
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What the host said. "" is: not there, or not known.

    complete    whether the script came to its end
    root        whether it ran as root
    os          ID and version of os-release, such as `debian-12`
    arch        as dpkg names it; without dpkg as the kernel does
    package     version of the agent's package that is installed
    agent       the Machine whose agent it is
    audit       packages that are half installed or half configured
    free        folder to KiB
    units       of UNITS those that run or are enabled
    kubelet     whether one runs; `node_name` is its Node's name
    credential  of the kubelet: embedded, file (then `certificate` is its path), other, unreadable
    reach       "ok", or why the API server is not reached
    """

    complete: bool
    root: bool
    os: str
    arch: str
    dpkg: bool
    systemd: str
    synchronised: str
    python: str
    package: str
    agent: str
    audit: tuple[str, ...]
    free: dict[str, int]
    units: tuple[str, ...]
    kubelet: bool
    node_name: str
    kubeconfig: str
    credential: str
    certificate: str
    rotates: bool
    reach: str


def parse(answer: str) -> HostFacts:
    """Lines that are none of ours, such as a login's greeting, are passed over."""
    said: dict[str, list[str]] = defaultdict(list)
    for line in answer.splitlines():
        word, _, value = line.partition(" ")
        said[word].append(value.strip())

    def one(word: str) -> str:
        return said[word][0] if word in said else ""

    installed = one("package")
    return HostFacts(
        complete="end" in said,
        root=one("uid") == "0",
        os=one("os"),
        arch=one("dpkg") or one("machine"),
        dpkg="dpkg" in said,
        systemd=one("systemd"),
        synchronised=one("synchronised"),
        python=one("python"),
        package=installed.removeprefix("ii").strip() if installed.startswith("ii") else "",
        agent=one("agent"),
        audit=tuple(one("audit").split()),
        free=dict(_room(said["free"])),
        units=tuple(said["unit"]),
        kubelet="kubelet" in said,
        node_name=one("kubelet") or one("hostname").lower(),
        kubeconfig=one("kubeconfig"),
        credential=one("credential"),
        certificate=one("certificate"),
        rotates="rotates" in said,
        reach=one("reach"),
    )


def _room(lines: list[str]) -> list[tuple[str, int]]:
    words = [line.split() for line in lines]
    return [(w[0], int(w[1])) for w in words if len(w) == 2 and w[1].isdigit()]
