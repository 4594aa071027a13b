"""Settings of the detectors: the tables [detectors.*] of the agent's settings.

Shares are percentages. Times are seconds unless the name says days.

    [detectors]
    npd_configs = ["/etc/node-problem-detector/*.json"]

    [detectors.disk]
    folders = ["/", "/var/lib/kubelet", "/data"]
    used_pct = 85

    [detectors.smart]
    enabled = true

Checks that cost little and need no tool of the host are on. SMART, kube-proxy and CPU pressure are
off. Each docstring names the source of its defaults.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from agent.detectors.logs.settings import LogSettings

Percent = Annotated[float, Meta(gt=0, le=100)]
Interval = Annotated[float, Meta(ge=1, le=86400)]
Seconds = Annotated[float, Meta(gt=0, le=86400)]
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Port = Annotated[int, Meta(ge=1, le=65535)]


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    enabled: bool = True


class KubeletSettings(_Table, frozen=True, kw_only=True):
    """The kubelet's healthz: every 10 s, with a minute of grace after a start.

    Source: node-problem-detector, health-checker-kubelet.json. Three failures in a row are a fault
    (Huawei CCE: five).
    """

    every_seconds: Interval = 10.0
    timeout_seconds: Seconds = 5.0
    grace_seconds: Seconds = 60.0
    port: Port = 10248


class RuntimeSettings(_Table, frozen=True, kw_only=True):
    """The CRI call Status: every 10 s, with two minutes of grace after a start.

    Source: node-problem-detector, health-checker-containerd.json. socket: "": that of the installed
    runtime.
    """

    every_seconds: Interval = 10.0
    timeout_seconds: Seconds = 10.0
    grace_seconds: Seconds = 120.0
    socket: str = ""


class KubeProxySettings(_Table, frozen=True, kw_only=True):
    """kube-proxy's healthz. Off, because many networks have no kube-proxy."""

    enabled: bool = False
    every_seconds: Interval = 10.0
    timeout_seconds: Seconds = 5.0
    port: Port = 10256


class UnitSettings(_Table, frozen=True, kw_only=True):
    """5 automatic restarts in 20 minutes (node-problem-detector, systemd-monitor-counter.json)."""

    names: tuple[str, ...] = (
        *("kubelet.service", "containerd.service"),
        *("docker.service", "crio.service"),
    )
    restarts: Count = 5
    within_seconds: Seconds = 1200.0


class TableSettings(_Table, frozen=True, kw_only=True):
    """90 %: Huawei CCE. inotify has no limit to set: the check creates one more watch, or fails."""

    every_seconds: Interval = 60.0
    files_pct: Percent = 90.0
    tasks_pct: Percent = 90.0
    conntrack_pct: Percent = 90.0


class DiskSettings(_Table, frozen=True, kw_only=True):
    """90 % of space: Huawei CCE; 95 % of inodes: the kubelet's nodefs.inodesFree<5%."""

    every_seconds: Interval = 60.0
    folders: tuple[str, ...] = (
        *("/", "/var", "/var/log", "/var/lib/kubelet"),
        *("/var/lib/containerd", "/var/lib/containers", "/var/lib/docker", "/var/lib/etcd"),
    )
    used_pct: Percent = 90.0
    inodes_pct: Percent = 95.0


class MountSettings(_Table, frozen=True, kw_only=True):
    """Mounts. The kernel reports changed mounts, but no error within a filesystem."""

    every_seconds: Interval = 30.0


class ClockSettings(_Table, frozen=True, kw_only=True):
    """0.5 s: half of what a Lease of a node agent or of etcd tolerates.

    Huawei CCE has 8 s, the node mixin 0.05 s.
    """

    every_seconds: Interval = 60.0
    offset_seconds: Seconds = 0.5


class CertificateSettings(_Table, frozen=True, kw_only=True):
    """7 days: kubernetes-mixin, KubeletClientCertificateExpiration. Files may contain * and ?."""

    every_seconds: Interval = 3600.0
    files: tuple[str, ...] = (
        "/var/lib/kubelet/pki/kubelet-client-current.pem",
        "/var/lib/kubelet/pki/kubelet-server-current.pem",
        "/var/lib/kubelet/pki/kubelet.crt",
    )
    days: Annotated[float, Meta(gt=0, le=3650)] = 7.0


class TaskSettings(_Table, frozen=True, kw_only=True):
    """10 tasks: Huawei CCE; 20 zombies: EKS node monitoring agent."""

    every_seconds: Interval = 60.0
    hung: Count = 10
    zombies: Count = 20


class PressureSettings(_Table, frozen=True, kw_only=True):
    """60 % of a minute: systemd-oomd's default for memory, used for disks too.

    A limit of 0 disables the check. CPU is off, because a busy node is no fault.
    """

    memory_pct: Annotated[float, Meta(ge=0, le=100)] = 60.0
    io_pct: Annotated[float, Meta(ge=0, le=100)] = 60.0
    cpu_pct: Annotated[float, Meta(ge=0, le=100)] = 0.0


class RebootSettings(_Table, frozen=True, kw_only=True):
    """/run/reboot-required: kured, --reboot-sentinel."""

    every_seconds: Interval = 3600.0
    file: str = "/run/reboot-required"


class SmartSettings(_Table, frozen=True, kw_only=True):
    """Off, because it needs smartctl. 100 bad sectors: node-problem-detector,
    disk-log-message-filelog.json.

    devices: empty: all that smartctl finds.
    """

    enabled: bool = False
    every_seconds: Interval = 3600.0
    devices: tuple[str, ...] = ()
    sectors: Count = 100


class GpuSettings(_Table, frozen=True, kw_only=True):
    """GPUs, if NVIDIA's driver is loaded. expected: 0: the number on the PCI bus."""

    every_seconds: Interval = 60.0
    expected: Annotated[int, Meta(ge=0, le=1024)] = 0


class Detectors(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table [detectors].

    npd_configs: node-problem-detector's files (custom-plugin and system-log monitors), with * and ?
        as in a shell
    """

    npd_configs: tuple[str, ...] = ()
    logs: LogSettings = LogSettings()
    kubelet: KubeletSettings = KubeletSettings()
    runtime: RuntimeSettings = RuntimeSettings()
    kube_proxy: KubeProxySettings = KubeProxySettings()
    units: UnitSettings = UnitSettings()
    tables: TableSettings = TableSettings()
    disk: DiskSettings = DiskSettings()
    mounts: MountSettings = MountSettings()
    clock: ClockSettings = ClockSettings()
    certificates: CertificateSettings = CertificateSettings()
    tasks: TaskSettings = TaskSettings()
    pressure: PressureSettings = PressureSettings()
    reboot: RebootSettings = RebootSettings()
    smart: SmartSettings = SmartSettings()
    gpu: GpuSettings = GpuSettings()
