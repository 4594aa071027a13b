"""What every disposable host starts from: one Debian image and the agent's Python packages.

Both are made once into the cache folder, named by a hash of what goes into them, so that a change
here makes a new one and nothing ever has to be cleared by hand. Suites that run side by side share
them: they are only read.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from support.components import MissingComponent

from agent.packages.build import install_libraries
from agent.packages.pins import LOCK_FILE, CannotPin, install, pins
from agent.packages.runtime import CHECKOUT, CannotBuild

SUITE = "bookworm"
LATER_SUITE = "trixie"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
SUITE_PYTHON = "3.11"
"""The image's python3, which runs agents that are not installed as packages."""
RUNTIME_SOURCES = ("agent/packages/build.py", "agent/packages/pins.py", "agent/packages/runtime.py")
PACKAGES = (
    *("systemd", "systemd-sysv", "dbus", "iproute2", "procps", "netbase", "python3"),
    # What makes a host a Node (support.kubelet_hosts); busybox is what its containers run.
    *("containerd", "runc", "containernetworking-plugins", "iptables", "conntrack", "mount"),
    "busybox-static",
    # What repairs and checks of the agent work with.
    *("chrony", "e2fsprogs", "kmod"),
    # What a person's machine reaches a host by (support.ssh_hosts).
    "openssh-server",
)
DNF_PACKAGES = ("dnf", "dnf-plugins-core", "rpm", "createrepo-c")
"""What a host has that is looked after by dnf beside apt; they build its packages as well."""
SCRIPTS = Path("/usr/share/debootstrap/scripts")
NODE_PACKAGES = ("containerd", "runc", "containernetworking-plugins")
NOT_STARTED = ("chrony.service", "containerd.service", "ssh.service")
"""Units that Debian starts at every boot, and only some hosts of the tests need."""
SYSTEM_CONF = "[Manager]\nDefaultTimeoutStopSec=5s\n"
"""Debian waits 90 s for a unit that does not stop; a test's reboot must not."""


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "kubenode"


def base_image() -> Path:
    """Root directory of the image, made by debootstrap when it is missing (about a minute).

    Raises MissingComponent when debootstrap fails.
    """
    recipe = " ".join([SUITE, *PACKAGES, *NOT_STARTED, SYSTEM_CONF])
    return once(f"hosts-{SUITE}-{_digest(recipe)}", _make_image)


def dnf_image() -> Path:
    """The same with dnf on it. Raises MissingComponent when its packages cannot be had."""
    base = base_image()
    name = f"{base.name}-dnf-{_digest(' '.join(DNF_PACKAGES))}"
    return once(name, lambda root: _make_dnf_image(base, root))


def agent_packages() -> Path:
    """A folder for PYTHONPATH with the agent's dependencies, as requirements.lock pins them."""
    try:
        pinned = pins(SUITE_PYTHON)
        name = f"agent-packages-{SUITE_PYTHON}-{_digest(pinned)}"
        return once(name, lambda folder: install(pinned, SUITE_PYTHON, folder))
    except CannotPin as error:
        raise MissingComponent(str(error)) from error


def agent_libraries() -> Path:
    """A folder with what the agent's packages bring beside the agent: its CPython and libraries.

    Raises MissingComponent.
    """
    sources = [CHECKOUT / name for name in (*RUNTIME_SOURCES, "images/debian.sh")]
    digest = _digest("".join(path.read_text() for path in (*sources, LOCK_FILE)))
    try:
        return once(f"agent-libraries-{digest}", lambda folder: install_libraries("amd64", folder))
    except (CannotPin, CannotBuild) as error:
        raise MissingComponent(str(error)) from error


def node_packages() -> Path:
    """Return a folder with the Debian packages of a container runtime and network plugins."""
    return debian_packages(*NODE_PACKAGES)


def debian_packages(*names: str) -> Path:
    """Return a folder with these packages of the hosts' release, without their dependencies."""
    return once(f"packages-{SUITE}-{_digest(' '.join(names))}", partial(_download, names))


def newer_containerd() -> Path:
    """Return the package of containerd of a later release, which the hosts can install."""
    folder = once(f"packages-{LATER_SUITE}-containerd", _download_later)
    (package,) = folder.glob("*.deb")
    return package


def _download(names: Sequence[str], folder: Path) -> None:
    _apt(folder, "download", *names)


def _download_later(folder: Path) -> None:
    """Download with lists of packages of their own, as this machine is of another release."""
    lists, sources = folder / "lists", folder / "sources.list"
    (lists / "partial").mkdir(parents=True)
    sources.write_text(f"deb [signed-by={KEYRING}] {_mirror()} {LATER_SUITE} main\n")
    places = {
        "Dir::Etc::SourceList": sources,
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": lists,
        "Dir::Cache": folder,
    }
    flags = [f"--option={key}={value}" for key, value in places.items()]
    _apt(folder, *flags, "update")
    _apt(folder, *flags, "download", "containerd")
    shutil.rmtree(lists)


def _apt(folder: Path, *arguments: str) -> None:
    argv = ["apt-get", *arguments]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise MissingComponent(f"`{' '.join(argv)}` failed:\n{done.stderr}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def once(name: str, make: Callable[[Path], None]) -> Path:
    """The folder `name` of the cache. It appears complete or not at all."""
    final = cache_folder() / name
    with _lock(cache_folder() / f"{name}.lock"):
        if not final.is_dir():
            unfinished = final.with_name(f"{name}.new")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True)
            make(unfinished)
            unfinished.rename(final)
    return final


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def debian_image(suite: str, packages: tuple[str, ...]) -> Path:
    """Return the root folder of a minimal image of a Debian release with packages.

    Raises MissingComponent when debootstrap fails.
    """
    name = f"debian-{suite}-{_digest(' '.join(packages))}"
    return once(name, lambda root: _bootstrap(suite, packages, root))


def _mirror() -> str:
    """The Debian mirror that this machine is set up to use."""
    wanted = ["apt-get", "indextargets", "--format", "$(SITE) $(RELEASE) $(COMPONENT)"]
    listed = subprocess.run(wanted, capture_output=True, text=True, check=False).stdout
    for line in listed.splitlines():
        site, _, rest = line.partition(" ")
        if rest == f"{SUITE} main":
            return site
    return "http://deb.debian.org/debian"


def _bootstrap(suite: str, packages: tuple[str, ...], root: Path) -> None:
    log = root.with_suffix(".log")
    recipe = SCRIPTS / suite  # a release that is younger than this debootstrap has none
    script = [] if recipe.exists() else [str(SCRIPTS / "sid")]
    with log.open("wb") as output:
        done = subprocess.run(
            [
                *("debootstrap", "--variant=minbase", f"--include={','.join(packages)}"),
                *(suite, str(root), _mirror(), *script),
            ],
            stdout=output,
            stderr=output,
            check=False,
        )
    if done.returncode != 0:
        end = "\n".join(log.read_text(errors="replace").splitlines()[-10:])
        raise MissingComponent(f"no image of {suite}: debootstrap failed, see {log}:\n{end}")


def _make_image(root: Path) -> None:
    _bootstrap(SUITE, PACKAGES, root)
    for archive in (root / "var/cache/apt/archives").glob("*.deb"):
        archive.unlink()
    conf = root / "etc/systemd/system.conf.d/kubenode-tests.conf"
    conf.parent.mkdir(parents=True, exist_ok=True)
    conf.write_text(SYSTEM_CONF)
    for unit in NOT_STARTED:
        (root / "etc/systemd/system/multi-user.target.wants" / unit).unlink(missing_ok=True)
    for key in (root / "etc/ssh").glob("ssh_host_*"):
        key.unlink()  # each host makes its own
    (root / "var/log/journal").mkdir(parents=True, exist_ok=True)  # the journal outlives a boot
    # Each host draws its own machine id; systemd would otherwise take the copy that dbus left.
    (root / "var/lib/dbus/machine-id").unlink(missing_ok=True)
    (root / "etc/machine-id").write_text("")


def _make_dnf_image(base: Path, root: Path) -> None:
    """apt runs in the copy, with this machine's way to the mirror."""
    log = root.with_suffix(".log")
    install = ["apt-get", "install", "--yes", "--no-install-recommends", *DNF_PACKAGES]
    with log.open("wb") as output:
        for argv in (
            ["cp", "--archive", "--reflink=auto", f"{base}/.", str(root)],
            ["cp", "/etc/resolv.conf", str(root / "etc/resolv.conf")],
            ["chroot", str(root), "apt-get", "update"],
            ["chroot", str(root), "env", "DEBIAN_FRONTEND=noninteractive", *install],
            ["chroot", str(root), "apt-get", "clean"],
        ):
            done = subprocess.run(argv, stdout=output, stderr=output, check=False)
            if done.returncode != 0:
                end = "\n".join(log.read_text(errors="replace").splitlines()[-10:])
                raise MissingComponent(f"no image with dnf: {argv[0]} failed, see {log}:\n{end}")
