"""Probe of a host: a script that runs there without changing it, and the parser of its output.

Each line of the output is a word and a value. It contains no secret: of credentials only the kind.
Run as root the script sees everything; otherwise it reports that it is not root.
"""

import shlex
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

CURRENT = "kubelet-client-current.pem"
"""Link to the newest certificate of a kubelet. Its kubeconfig names this link, or another file."""
UNITS = (
    *("unattended-upgrades.service", "puppet.service", "chef-client.service"),
    *("salt-minion.service", "cfengine3.service", "landscape-client.service"),
    *("ansible-pull.timer", "google-osconfig-agent.service", "node-problem-detector.service"),
    *("k3s.service", "k3s-agent.service", "rke2-server.service", "rke2-agent.service"),
    *("snap.microk8s.daemon-kubelite.service", "snap.kubelet-eks.daemon.service"),
)
"""Services that change packages, files or the kubelet of a host by themselves."""

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""Names of the kernel and of dpkg."""

_TEXT = Path(__file__).with_name("probe.sh").read_text()


def probe_script(server: str = "", ca: str = "") -> str:
    """Return a POSIX shell script for `sh -s`. It takes a few seconds.

    server: URL to try from the host, "" for none.
    ca: PEM of the authority of the server.
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
    """What the host reported. "" means absent or unknown.

    complete: whether the script ran to its end.
    root: whether it ran as root.
    os: ID and version of os-release, such as `debian-12`.
    arch: architecture as named by dpkg.
    format: how the host installs packages: deb (by apt-get), rpm, or tar if it has neither.
    package: installed version of the agent's package.
    agent: the Machine whose agent runs there.
    audit: packages that are half installed or half configured.
    free: free KiB by folder.
    units: those of UNITS that run or are enabled.
    kubelet: whether a kubelet runs.
    node_name: name of its Node.
    credential: of the kubelet: embedded, file, other or unreadable.
    certificate: path of its certificate, if the credential is a file.
    reach: "ok", or why the host does not reach the API server.
    """

    complete: bool
    root: bool
    os: str
    arch: str
    format: str
    systemd: str
    synchronised: str
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
    """Return the facts. Other lines, such as a login's greeting, are ignored."""
    fields: dict[str, list[str]] = defaultdict(list)
    for line in answer.splitlines():
        word, _, value = line.partition(" ")
        fields[word].append(value.strip())

    def get_first(word: str) -> str:
        return fields[word][0] if word in fields else ""

    installed = get_first("package")
    return HostFacts(
        complete="end" in fields,
        root=get_first("uid") == "0",
        os=get_first("os"),
        arch=get_first("dpkg") or ARCHITECTURES.get(get_first("machine"), get_first("machine")),
        format="deb" if "dpkg" in fields else "rpm" if "rpm" in fields else "tar",
        systemd=get_first("systemd"),
        synchronised=get_first("synchronised"),
        package=installed.removeprefix("ii").strip() if installed.startswith("ii") else "",
        agent=get_first("agent"),
        audit=tuple(get_first("audit").split()),
        free=dict(_room(fields["free"])),
        units=tuple(fields["unit"]),
        kubelet="kubelet" in fields,
        node_name=get_first("kubelet") or get_first("hostname").lower(),
        kubeconfig=get_first("kubeconfig"),
        credential=get_first("credential"),
        certificate=get_first("certificate"),
        rotates="rotates" in fields,
        reach=get_first("reach"),
    )


def _room(lines: list[str]) -> list[tuple[str, int]]:
    columns = [line.split() for line in lines]
    return [(w[0], int(w[1])) for w in columns if len(w) == 2 and w[1].isdigit()]
