"""Disposable hosts as real Nodes: containerd and kubelet, joined to the real kube-apiserver.

    with (
        Hosts() as hosts,
        ControlPlane(address=hosts.gateway, controller_args=QUICK) as cp,
        KubeletHosts(hosts, cp) as nodes,
    ):
        nodes.boot("n1", zone="a")
        nodes.wait_ready()

The Node's `spec.providerID` leads to the host's board (`Hosts.power_command`), so that the provider
`local` can look at its power and cut it. Pods of different hosts cannot reach each other without
support.pod_network.
"""

import ipaddress
import json
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from support.component_packages import serve
from support.components import control_plane_folder
from support.control_plane import ControlPlane
from support.host_image import NODE_PACKAGES, node_packages
from support.hosts import Host, Hosts
from support.node_files import cni_config, kubelet_config, write_image

QUICK = ("--node-monitor-grace-period=8s", "--node-monitor-period=1s")
"""For kube-controller-manager: a silent node is Ready=Unknown after 8 s, not after 50."""
PREFIX = "kubenode-local://"
FILES = Path(__file__).parents[1] / "hosts" / "node"
CONTAINERD = FILES / "containerd.toml"
PREPARE = "node-prepare.service"
ARGS = (
    "--capability=all",
    "--system-call-filter=add_key keyctl bpf perf_event_open",
)
READY_SECONDS = 120.0
"""Generous: a new host is Ready within three seconds when nothing else runs."""


class KubeletHosts:
    """The hosts of `hosts` that are Nodes of `cp`, by name.

    dns  address of the DNS server of pods; "" for that of the host
    """

    def __init__(self, hosts: Hosts, cp: ControlPlane, dns: str = "") -> None:
        self._hosts, self._cp, self._dns = hosts, cp, dns
        self._archive = hosts.folder / "image.tar"
        self._nodes: dict[str, Host] = {}
        self.pod_networks: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Before the API server ends: it would wait for the kubelets' watches."""
        for host in self._nodes.values():
            host.destroy()

    def provider_id(self, name: str) -> str:
        return f"{PREFIX}{self._hosts.session}/{name}"

    def boot(
        self, name: str, *, zone: str, bind: Mapping[Path, str] | None = None, delay: float = 0.0
    ) -> Host:
        """A new host whose kubelet has been started; `wait_ready` waits for the Node.

        delay  seconds between down and up of every reboot
        """
        binds = {**(bind or {}), control_plane_folder(): "/opt/kubernetes/bin"}
        host = self._boot(name, binds, delay)
        self.pod_networks[name] = self._pod_network(len(self._nodes))
        self._install(host, zone, self.pod_networks[name])
        self._nodes[name] = host
        return host

    def boot_bare(self, name: str) -> Host:
        """A new host without kubelet, container runtime and network plugins.

        Its apt offers the packages. The containers' image is stored where the runtime looks for it.
        """
        host = self._boot(name, {}, 0.0)
        host.run("apt-get", "purge", "-y", *NODE_PACKAGES, timeout=120)
        serve(host, sorted(node_packages().glob("*.deb")))
        host.run("apt-get", "update")
        self._nodes[name] = host
        return host

    def _boot(self, name: str, bind: Mapping[Path, str], delay: float) -> Host:
        """Boot a host whose containerd runs and has the image."""
        args = [*ARGS, *self._disks(name)]
        binds = {**bind, FILES: "/opt/node"}
        host = self._hosts.boot(name, bind=binds, args=args, boot_delay=delay)
        if not self._archive.exists():
            write_image(host.root / "bin/busybox", self._archive)
        host.write("/etc/containerd/config.toml", CONTAINERD.read_text())
        host.write(f"/etc/systemd/system/{PREPARE}", (FILES / PREPARE).read_text())
        shutil.copy(self._archive, host.root / "var/tmp/image.tar")
        host.run("systemctl", "daemon-reload")
        host.run("systemctl", "start", PREPARE, "containerd.service")
        host.run("ctr", "-n", "k8s.io", "images", "import", "/var/tmp/image.tar")
        return host

    def _pod_network(self, number: int) -> str:
        """A network of 30 addresses that no other host of this machine has."""
        session = self._hosts.gateway.split(".")[2]
        networks = ipaddress.ip_network(f"10.244.{session}.0/24").subnets(new_prefix=27)
        return str(list(networks)[number])

    def _disks(self, name: str) -> list[str]:
        """Real folders: containers' overlays cannot lie on the overlay that a host's disk is."""
        binds = []
        for short, there in (("c", "/var/lib/containerd"), ("k", "/var/lib/kubelet")):
            here = self._hosts.folder / f"{name}-disks" / short
            here.mkdir(parents=True)
            binds.append(f"--bind={here}:{there}")
        return binds

    def _install(self, host: Host, zone: str, pods: str) -> None:
        config = kubelet_config(self.provider_id(host.name), "/etc/kubernetes/ca.crt", self._dns)
        host.write("/etc/kubernetes/ca.crt", self._cp.ca_file.read_text())
        host.write("/etc/kubernetes/kubelet.json", json.dumps(config))
        host.write("/etc/kubernetes/kubelet.kubeconfig", self._kubeconfig(host), 0o600)
        labels = f"topology.kubernetes.io/zone={zone}"
        host.write("/etc/kubernetes/node.env", f"ADDRESS={host.address}\nLABELS={labels}\n")
        host.write("/etc/cni/net.d/10-pods.conflist", json.dumps(cni_config(pods)))
        host.write("/etc/systemd/system/kubelet.service", (FILES / "kubelet.service").read_text())
        host.run("systemctl", "daemon-reload")
        host.run("systemctl", "enable", "kubelet.service")
        host.run("systemctl", "start", "--no-block", "kubelet.service")

    def _kubeconfig(self, host: Host) -> str:
        """The certificate that the API server knows a kubelet by, as if it had been signed."""
        user = self._cp.issue_client_cert(f"system:node:{host.name}", ["system:nodes"])
        host.write("/etc/kubernetes/kubelet.crt", user.cert_file.read_text())
        host.write("/etc/kubernetes/kubelet.key", user.key_file.read_text(), 0o600)
        folder = "/etc/kubernetes"
        return json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "node",
                "contexts": [{"name": "node", "context": {"cluster": "node", "user": "node"}}],
                "clusters": [
                    {
                        "name": "node",
                        "cluster": {
                            "server": self._cp.server,
                            "certificate-authority": f"{folder}/ca.crt",
                        },
                    }
                ],
                "users": [
                    {
                        "name": "node",
                        "user": {
                            "client-certificate": f"{folder}/kubelet.crt",
                            "client-key": f"{folder}/kubelet.key",
                        },
                    }
                ],
            }
        )

    def __getitem__(self, name: str) -> Host:
        return self._nodes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def ready(self) -> dict[str, dict[str, Any]]:
        """The Nodes that are Ready under the boot that their hosts run now, by name."""
        listed = self._cp.get("/api/v1/nodes")["items"]
        nodes = {node["metadata"]["name"]: node for node in listed}
        return {name: node for name, node in nodes.items() if self._is_ready(name, node["status"])}

    def _is_ready(self, name: str, status: dict[str, Any]) -> bool:
        boot = status.get("nodeInfo", {}).get("bootID")
        return (
            name in self._nodes
            and boot == self[name].boot_id()
            and any(
                c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", [])
            )
        )

    def wait_ready(self) -> None:
        """Until every Node is Ready. AssertionError with kubelet's last words."""
        end = time.monotonic() + READY_SECONDS
        while waiting := sorted(self._nodes.keys() - self.ready().keys()):
            if time.monotonic() > end:
                said = self[waiting[0]].journal("kubelet.service")
                raise AssertionError(f"not Ready within {READY_SECONDS:g} s: {waiting}\n{said}")
            time.sleep(0.1)
