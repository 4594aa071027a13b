"""Builds all ports of this machine."""

from pathlib import Path

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


def real_ports(host: SystemdHost, server: str, state_dir: str) -> Ports:
    """Return the ports of this machine.

    server: URL of the API server
    state_dir: the agent's folder; the host must see it at the same path
    """
    commands, folder = Commands(host), Path(state_dir)
    return Ports(
        processes=ProcProcesses(),
        disks=RealDisks(commands),
        containers=RealContainers(commands),
        time=RealTime(host, commands),
        kernel=RealKernel(commands),
        filesystems=RealFilesystems(commands),
        network=RealNetwork(host, commands, server, folder / "network"),
        gpus=NvidiaGpus(commands),
        kubelet_certificate=RealKubeletCertificate(),
        scripts=RealScripts(commands, folder / "scripts"),
    )
