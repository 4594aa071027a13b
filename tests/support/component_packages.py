"""Debian packages built in a test, and a repository of them that apt reads from a folder."""

import hashlib
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from support.hosts import Host

REPOSITORY = "/opt/repository"
SERVICE = """[Service]
ExecStart=/usr/bin/{name} {version}
[Install]
WantedBy=multi-user.target
"""
STARTS = """#!/bin/sh
set -e
while [ -e /opt/hold-{name} ]; do sleep 0.05; done
echo {version} >> /opt/configured-{name}
systemctl --no-reload --quiet enable {name}.service
systemctl daemon-reload
systemctl restart {name}.service
"""
"""As Debian's own scripts do; held where a test wants to be in the middle."""
UNPACKS = """#!/bin/sh
while [ -e /opt/unpack-{name} ]; do sleep 0.05; done
"""
"""Likewise, in the middle of unpacking."""
STOPS = """#!/bin/sh
systemctl stop {name}.service || true
"""


def deb(
    folder: Path,
    name: str,
    version: str,
    *,
    program: str = "#!/bin/sh\nexec sleep infinity\n",
    depends: str = "",
    conffile: str = "",
) -> Path:
    """A package with /usr/bin/NAME as the service NAME, and a configuration file if wanted."""
    root = folder / f"{name}-{version}"
    files: dict[str, str] = {
        f"usr/bin/{name}": program,
        f"usr/lib/systemd/system/{name}.service": SERVICE.format(name=name, version=version),
        "DEBIAN/control": _control(name, version, depends),
        "DEBIAN/postinst": STARTS.format(name=name, version=version),
        "DEBIAN/preinst": UNPACKS.format(name=name),
        "DEBIAN/prerm": STOPS.format(name=name),
    }
    if conffile:
        files |= {f"etc/{name}.conf": conffile, "DEBIAN/conffiles": f"/etc/{name}.conf\n"}
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755 if text.startswith("#!") else 0o644)
    made = folder / f"{name}_{version}_all.deb"
    argv = ["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", str(root), str(made)]
    subprocess.run(argv, check=True, capture_output=True)
    return made


def _control(name: str, version: str, depends: str) -> str:
    needs = f"Depends: {depends}\n" if depends else ""
    return (
        f"Package: {name}\nVersion: {version}\nArchitecture: all\n{needs}"
        "Maintainer: tests <tests@localhost>\nDescription: made in a test\n"
    )


def index(packages: Sequence[Path]) -> str:
    """What apt reads of a flat repository as its file `Packages`."""
    told = []
    for package in packages:
        argv = ["dpkg-deb", "--field", str(package)]
        control = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
        data = package.read_bytes()
        told.append(
            f"{control}Filename: ./{package.name}\nSize: {len(data)}\n"
            f"SHA256: {hashlib.sha256(data).hexdigest()}\n"
        )
    return "\n".join(told)


def serve(host: Host, packages: Sequence[Path]) -> None:
    """Make them the one repository that the host's apt knows. It has to read it by itself."""
    folder = host.root / REPOSITORY.lstrip("/")
    folder.mkdir(parents=True, exist_ok=True)
    for package in packages:
        (folder / package.name).write_bytes(package.read_bytes())
    (folder / "Packages").write_text(index(packages))
    host.write("/etc/apt/sources.list", f"deb [trusted=yes] file://{REPOSITORY} ./\n")


def versions(host: Host, names: Sequence[str]) -> Mapping[str, str]:
    """Version and state of each, as dpkg has them."""
    shown = "${Package} ${Version} ${db:Status-Abbrev}\n"
    said = host.run("dpkg-query", "-W", f"-f={shown}", *names, check=False).stdout
    lines = (line.split(" ", 1) for line in said.splitlines())
    return {name: rest.strip() for name, rest in lines}
