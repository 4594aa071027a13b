"""The agent's packages, the Debian one in three versions, and hosts that they are installed on."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.agent_jobs import MACHINES, NODES
from support.agent_service import EVERY_UNIT
from support.control_plane import ControlPlane
from support.host_image import agent_libraries, agent_packages
from support.hosts import Host

from agent.packages.build import HERE, VERSIONS, build, sources

SERVICE = "kubenode-agent.service"
EARLIER = Path(__file__).parents[1] / "hosts" / "earlier_deb"
SKEWED = Path(__file__).parents[1] / "hosts" / "skewed_agent.py"
PROVE_SECONDS = 15


@dataclass(frozen=True)
class Packages:
    """`broken` installs well, and its agent ends at its start."""

    first: Path
    next: Path
    broken: Path


def agent_package(folder: Path, format_: str = "deb", version: str = "") -> Path:
    """The package of this checkout; the libraries in it are made once."""
    (package,) = build(folder, formats=(format_,), version=version, built=agent_libraries())
    return package


def packages(folder: Path) -> Packages:
    """The Debian package of this checkout, and two later versions made from it."""
    first = agent_package(folder, version="0.1.0")
    broken = _later(first, "0.1.2", 'raise SystemExit("this version is broken")\n')
    return Packages(first, _later(first, "0.1.1"), broken)


def earlier_package(folder: Path, version: str) -> Path:
    """The agent as packages had it before they brought a CPython, with the scripts of that time."""
    root = folder / version
    home = root / VERSIONS / version
    sources(home / "src", version)
    shutil.copytree(agent_packages(), home / "lib")
    for name, target in {
        "kubenode-agent": "usr/bin/kubenode-agent",
        "kubenode-agent.service": "usr/lib/systemd/system/kubenode-agent.service",
        **{name: f"DEBIAN/{name}" for name in ("control", "postinst", "prerm", "postrm")},
    }.items():
        text = (EARLIER / name).read_text().replace("@VERSION@", version)
        _write(root / target, text.replace("@ARCHITECTURE@", "amd64"))
    for name in ("prove", "proven"):
        _write(root / "usr/lib/kubenode-agent" / name, (HERE / name).read_text())
    return _pack(root, folder / f"kubenode-agent_{version}_amd64.deb")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755 if text.startswith("#!") else 0o644)


def _later(package: Path, version: str, main: str = "") -> Path:
    """The same files under another version; `main` is put in the place of the agent's program."""
    root = package.parent / version
    subprocess.run(["dpkg-deb", "--raw-extract", package, root], check=True)
    home = root / VERSIONS / version
    (root / VERSIONS / "0.1.0").rename(home)
    (home / "src" / "VERSION").write_text(f"{version}\n")
    for file in (root / "DEBIAN").iterdir():
        file.write_text(file.read_text().replace("0.1.0", version))
    if main:
        (home / "src" / "agent" / "main.py").write_text(main)
        for compiled in (home / "src" / "agent" / "__pycache__").glob("main.*"):
            compiled.unlink()
    return _pack(root, package.parent / package.name.replace("0.1.0", version))


def _pack(root: Path, package: Path) -> Path:
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", root, package],
        check=True,
        capture_output=True,
    )
    shutil.rmtree(root)
    return package


class PackagedHost:
    """A host whose agent came as a package and got its certificate by a token."""

    def __init__(self, host: Host, cp: ControlPlane) -> None:
        self.host, self.name, self._cp = host, host.name, cp

    def join(self, package: Path, token: str, settings: str = "") -> None:
        """What a person does, in the order of the package's own advice."""
        self.install(package)
        self.host.write("/etc/kubenode/ca.crt", self._cp.ca_file.read_text())
        self.host.write("/etc/kubenode/token", token, 0o600)
        self.host.write(
            "/etc/kubenode/agent.toml",
            f'node = "{self.name}"\nserver = "{self._cp.server}"\n'
            'ca_file = "/etc/kubenode/ca.crt"\n'
            f'bootstrap_token_file = "/etc/kubenode/token"\n{EVERY_UNIT}{settings}',
        )
        self.host.run("systemctl", "start", SERVICE)

    def install(self, package: Path) -> None:
        there = self.host.root / "var/cache" / package.name
        shutil.copyfile(package, there)
        self.host.run(
            *("env", f"KUBENODE_PROVE_SECONDS={PROVE_SECONDS}", "dpkg", "--force-unsafe-io"),
            *("--install", f"/var/cache/{package.name}"),
            timeout=120,
        )

    @property
    def machine(self) -> dict[str, Any]:
        status: dict[str, Any] = self._cp.get(f"{MACHINES}/{self.name}").get("status", {})
        return status

    @property
    def version(self) -> str:
        """Which agent the Machine says it has."""
        return str(self.machine.get("host", {}).get("agent", ""))

    @property
    def joined(self) -> bool:
        conditions = {c["type"]: c["status"] for c in self.machine.get("conditions", ())}
        return conditions.get("AgentReady") == "True"

    @property
    def certificate(self) -> str:
        """The pair that it shows, as text."""
        return self.host.read("/var/lib/kubenode-agent/identity/current.pem")

    def condition(self, type_: str) -> dict[str, Any]:
        node = self._cp.get(f"{NODES}/{self.name}")
        found = (c for c in node["status"].get("conditions", ()) if c["type"] == type_)
        return next(found, {})

    def set_clock(self, seconds: int) -> None:
        """The agent's own clock from now on, against the true one; it is started again."""
        folder = f"/etc/systemd/system/{SERVICE}.d"
        self.host.run("rm", "-rf", folder)
        if seconds:
            self.host.write("/var/lib/skewed_agent.py", SKEWED.read_text())
            self.host.write(
                f"{folder}/skewed.conf",
                "[Service]\nExecStart=\n"
                "ExecStart=/opt/kubenode/bin/python3 -P /var/lib/skewed_agent.py\n"
                f"Environment=SKEW_SECONDS={seconds}\n",
            )
        self.host.run("systemctl", "daemon-reload")
        self.host.run("systemctl", "restart", SERVICE)
