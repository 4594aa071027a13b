"""Allow lists of the agent's configuration; the catalogue of actions has further bounds.

[repairs]
mount_points = ["/", "/var/lib/containerd"]
reload_modules = ["mlx5_ib"]

[scripts.reset-link]
path = "/opt/kubenode/scripts/reset-link"
sha256 = "..."
args = ["--quiet"]
params = {device = ["eth0", "eth1"]}
"""

import re
from collections.abc import Iterator, Mapping

import msgspec

from kubenode.runtime.agentparams import UNITS

MOUNT_POINTS = (
    *("/", "/var", "/var/lib", "/var/log"),
    *("/var/lib/containerd", "/var/lib/docker", "/var/lib/kubelet"),
)
MODULES = (
    *("br_netfilter", "overlay", "nf_conntrack", "vxlan", "wireguard", "nvidia"),
    *("ip_vs", "ip_vs_rr", "ip_vs_wrr", "ip_vs_sh", "ip_tables", "ip6_tables", "iptable_nat"),
)
"""Kernel modules that Kubernetes and its networks need."""


class Repairs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Allow lists of the table [repairs].

    mount_points: what RemountFilesystem may make writable again
    load_modules: what LoadModule may load
    reload_modules: what ReloadModule may unload and load again; empty by default
    units: what RestartUnit, StartUnit and ReloadUnit may change; `*` matches any text
    stop_units: what StopUnit may stop
    """

    mount_points: list[str] = msgspec.field(default_factory=lambda: list(MOUNT_POINTS))
    load_modules: list[str] = msgspec.field(default_factory=lambda: list(MODULES))
    reload_modules: list[str] = msgspec.field(default_factory=list)
    units: list[str] = msgspec.field(default_factory=lambda: list(UNITS))
    stop_units: list[str] = msgspec.field(default_factory=lambda: list(UNITS))


class AllowedScript(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A script that RunScript may run.

    path: the script or program
    sha256: of its file
    args: its fixed arguments
    params: allowed values of parameters that a step may add as `--NAME=VALUE`
    """

    path: str
    sha256: str
    args: list[str] = msgspec.field(default_factory=list)
    params: dict[str, list[str]] = msgspec.field(default_factory=dict)


_DIGEST = re.compile(r"[0-9a-fA-F]{64}")
_UNIT = re.compile(r"[A-Za-z0-9:_.@\\*-]*(\*|\.(service|socket|timer|target|mount|path))")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def complaints(repairs: Repairs, scripts: Mapping[str, AllowedScript]) -> Iterator[str]:
    """Describe each error in these settings, and what to write instead."""
    for point in repairs.mount_points:
        if not point.startswith("/") or (point != "/" and point.endswith("/")):
            yield f"repairs.mount_points {point!r}: give full paths without a slash at the end"
    for setting in ("units", "stop_units"):
        for unit in getattr(repairs, setting):
            if not _UNIT.fullmatch(unit):
                yield f"repairs.{setting} {unit!r}: write units such as kubelet.service or kube-*"
    for name, script in scripts.items():
        if not script.path.startswith("/"):
            yield f"scripts.{name}.path {script.path!r}: give the full path"
        if not _DIGEST.fullmatch(script.sha256):
            yield f"scripts.{name}.sha256 {script.sha256!r}: give the 64 digits of sha256sum"
        for parameter in script.params:
            if not _NAME.fullmatch(parameter):
                yield f"scripts.{name}.params {parameter!r}: letters, digits, - and _ only"
