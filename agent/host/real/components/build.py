"""Builds all component ports of this machine."""

from pathlib import Path

from agent.components.ports import ComponentPorts, PackageManager
from agent.host.files import HostRoot
from agent.host.real.commands import Commands
from agent.host.real.components.downloads import Downloads
from agent.host.real.components.dpkg import DpkgPackages
from agent.host.real.components.files import RealFiles
from agent.host.real.components.rpm import DnfPackages
from agent.host.real.components.runner import UnitRunner
from agent.host.real.components.trees import RealTrees
from agent.host.real.components.units import SystemdUnits
from agent.host.real.components.watch import InotifyWatch
from agent.host.systemd import SystemdHost


def real_components(
    host: SystemdHost, state_dir: str, host_root: str, architecture: str
) -> ComponentPorts:
    """Return the component ports of this machine.

    state_dir: the agent's folder; the host must see it at the same path
    host_root: where the host's files are mounted
    architecture: as Kubernetes names it, such as `amd64`, `arm64`
    """
    commands, root, folder = Commands(host), Path(host_root), Path(state_dir) / "components"
    runner, files = UnitRunner(commands), HostRoot(host_root)
    packages: dict[str, PackageManager] = {}
    if files.exists("/usr/bin/apt-get"):
        packages["apt"] = DpkgPackages(runner)
    if files.exists("/usr/bin/dnf"):
        packages["dnf"] = DnfPackages(runner)
    return ComponentPorts(
        packages=packages,
        trees=RealTrees(runner, Downloads(architecture, root), folder / "trees", root),
        files=RealFiles(commands, folder / "files", root),
        units=SystemdUnits(host),
        runner=runner,
        watch=InotifyWatch(root),
    )
