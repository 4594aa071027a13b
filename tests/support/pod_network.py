"""Services, their names, and routes between pods, for disposable Nodes.

    with ControlPlane(address=hosts.gateway, apiserver_args=SERVICES) as cp, ...:
        with PodNetwork(cp, nodes):

kube-proxy runs on every host. CoreDNS runs beside the control plane, on the address that kubelets
give to pods (`KubeletHosts(..., dns=hosts.gateway)`). A static route per host leads to its pods,
on this machine and on the other hosts, which an overlay network would do in a cluster.
"""

import json
from pathlib import Path
from types import TracebackType
from typing import Self

from support.components import cluster_network_folder
from support.control_plane import ControlPlane
from support.daemons import Daemon
from support.host_claims import command
from support.hosts import Host
from support.kubelet_hosts import KubeletHosts

SERVICES = ("--endpoint-reconciler-type=lease", "--enable-aggregator-routing=true")
"""For kube-apiserver: it publishes its address as the Service `kubernetes`, and finds webhooks by
EndpointSlices, because no kube-proxy runs beside it.
"""
PROXY_UNIT = """[Unit]
Description=kube-proxy
After=node-prepare.service

[Service]
ExecStart=/opt/kubernetes/bin/kube-proxy --kubeconfig=/etc/kubernetes/proxy.kubeconfig \\
  --hostname-override=%H --proxy-mode=iptables --conntrack-max-per-core=0 \\
  --conntrack-tcp-timeout-established=0 --conntrack-tcp-timeout-close-wait=0
Restart=always
RestartSec=1

[Install]
WantedBy=multi-user.target
"""
COREFILE = """cluster.local {{
  bind {address}
  errors
  kubernetes {{
    kubeconfig {kubeconfig}
  }}
}}
"""


class PodNetwork:
    """The network of all hosts that `nodes` has on entry."""

    def __init__(self, cp: ControlPlane, nodes: KubeletHosts, address: str) -> None:
        self._cp, self._nodes, self._address = cp, nodes, address
        corefile = cp.folder / "Corefile"
        corefile.write_text(COREFILE.format(address=address, kubeconfig=cp.kubeconfig))
        argv: list[str | Path] = [cluster_network_folder() / "coredns", "-conf", corefile]
        self.names = Daemon("coredns", argv, cp.folder / "coredns.log")

    def __enter__(self) -> Self:
        self.names.start()
        for name in self._nodes:
            self._route(name)
            self._start_proxy(self._nodes[name])
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.names.stop()
        for name in self._nodes:
            command("ip", "route", "del", self._nodes.pod_networks[name], check=False)

    def _route(self, name: str) -> None:
        """The way to the pods of one host."""
        way = (self._nodes.pod_networks[name], "via", self._nodes[name].address)
        command("ip", "route", "replace", *way)
        for other in self._nodes:
            if other != name:
                self._nodes[other].run("ip", "route", "replace", *way)

    def _start_proxy(self, host: Host) -> None:
        identity = self._cp.issue_client_cert("system:kube-proxy")
        folder = "/etc/kubernetes"
        host.write(f"{folder}/proxy.crt", identity.cert_file.read_text())
        host.write(f"{folder}/proxy.key", identity.key_file.read_text(), 0o600)
        user = {"client-certificate": f"{folder}/proxy.crt", "client-key": f"{folder}/proxy.key"}
        cluster = {"server": self._cp.server, "certificate-authority": f"{folder}/ca.crt"}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "node",
            "contexts": [{"name": "node", "context": {"cluster": "node", "user": "node"}}],
            "clusters": [{"name": "node", "cluster": cluster}],
            "users": [{"name": "node", "user": user}],
        }
        host.write(f"{folder}/proxy.kubeconfig", json.dumps(config))
        host.write("/etc/systemd/system/kube-proxy.service", PROXY_UNIT)
        host.run("systemctl", "daemon-reload")
        host.run("systemctl", "enable", "--now", "kube-proxy.service")
