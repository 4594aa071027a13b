"""What the agent's configuration lets repairs touch; the catalogue itself bounds the rest.

[repairs]
mount_points = ["/", "/var/lib/containerd"]
reload_modules = ["mlx5_ib"]

[scripts.reset-link]
path = "/opt/kubenode/scripts/reset-link"
sha256 = "..."
args = ["--quiet"]
params = {device = ["eth0", "eth1"]}
"""

import msgspec

MOUNT_POINTS = (
    *("/", "/var", "/var/lib", "/var/log"),
    *("/var/lib/containerd", "/var/lib/docker", "/var/lib/kubelet"),
)
MODULES = (
    *("br_netfilter", "overlay", "nf_conntrack", "vxlan", "wireguard", "nvidia"),
    *("ip_vs", "ip_vs_rr", "ip_vs_wrr", "ip_vs_sh", "ip_tables", "ip6_tables", "iptable_nat"),
)
"""What Kubernetes and its networks want of a kernel."""


class Repairs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """mount_points    what RemountFilesystem may make writable again
    load_modules    what LoadModule may load
    reload_modules  what ReloadModule may take out and load again; nothing unless it is listed
    """

    mount_points: list[str] = msgspec.field(default_factory=lambda: list(MOUNT_POINTS))
    load_modules: list[str] = msgspec.field(default_factory=lambda: list(MODULES))
    reload_modules: list[str] = msgspec.field(default_factory=list)


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """path    the script or program
    sha256  of its file
    args    what it is always given
    params  what a step may add, as `--NAME=VALUE`, with the values that are allowed
    """

    path: str
    sha256: str
    args: list[str] = msgspec.field(default_factory=list)
    params: dict[str, list[str]] = msgspec.field(default_factory=dict)
