"""Builds all ports of this machine."""

from pathlib import Path

from agent.host.files import HostRoot
from agent.host.ports import Ports
from agent.host.real.clock import RealTime
from agent.host.real.commands import Commands
from agent.host.real.containers import RealContainers
from agent.host.real.disks import RealDisks
from agent.host.real.filesystems import RealFilesystems
from agent.host.real.gpus import NvidiaGpus
from agent.host.real.kernel import RealKernel
from agent.host.real.kubelet import RealKubeletCertificate
from agent.host.real.network import RealNetwork
from agent.host.real.processes import ProcProcesses
from agent.host.real.scripts import RealScripts
from agent.host.systemd import SystemdHost


def real_ports(host: SystemdHost, server: str, state_dir: str, host_root: str = "/") -> Ports:
    """Return the ports of this machine.

    server: URL of the API server
    state_dir: the agent's folder; the host must see it at the same path
    host_root: where the host's root is mounted
    """
    commands, folder, files = Commands(host), Path(state_dir), HostRoot(host_root)
    return Ports(
        processes=ProcProcesses(files),
        disks=RealDisks(commands, files),
        containers=RealContainers(commands),
        time=RealTime(host, commands),
        kernel=RealKernel(commands, files),
        filesystems=RealFilesystems(commands, files),
        network=RealNetwork(host, commands, server, folder / "network", files),
        gpus=NvidiaGpus(commands),
        kubelet_certificate=RealKubeletCertificate(commands, files),
        scripts=RealScripts(commands, folder / "scripts"),
    )
