"""Karpenter with its kwok provider on a control plane, as an administrator of it."""

from pathlib import Path

from support.chart_plane import ready
from support.components import karpenter_folder
from support.control_plane import ControlPlane
from support.daemons import Daemon, Served, free_port
from support.helm import Object
from support.remedy_cluster import established

CLAIMS, POOLS = "/apis/karpenter.sh/v1/nodeclaims", "/apis/karpenter.sh/v1/nodepools"
POOL = "karpenter.sh/nodepool"
"""Label of a NodeClaim and of its Node."""
CLASS = {
    "apiVersion": "karpenter.kwok.sh/v1alpha1",
    "kind": "KWOKNodeClass",
    "metadata": {"name": "default"},
}
KINDS = (
    "nodepools.karpenter.sh",
    "nodeclaims.karpenter.sh",
    "kwoknodeclasses.karpenter.kwok.sh",
)


class KarpenterController(Served):
    """From its start on ready."""

    READY_SECONDS = 120.0

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self._health = free_port()
        plane.kubectl("apply", "--server-side", "-f", karpenter_folder() / "crds")
        established(plane, [f"crd/{name}" for name in KINDS])
        own = (
            f"KUBECONFIG={plane.kubeconfig}",
            f"HEALTH_PROBE_PORT={self._health}",
            f"METRICS_PORT={free_port()}",
            "DISABLE_LEADER_ELECTION=true",
            "FEATURE_GATES=NodeRepair=true",
        )
        program = karpenter_folder() / "karpenter"
        self._daemon = Daemon("karpenter", ["env", *own, program], folder / "karpenter.log")

    def _ready(self) -> bool:
        return ready(f"http://127.0.0.1:{self._health}")


def a_pool(name: str, expire_after: str = "Never") -> Object:
    """A NodePool that consolidates empty Nodes after a second, and replaces Nodes for drift."""
    required = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "karpenter.sh/capacity-type": "on-demand",
    }
    spec = {
        "requirements": [
            {"key": key, "operator": "In", "values": [value]} for key, value in required.items()
        ],
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        "expireAfter": expire_after,
    }
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {"spec": spec},
            "disruption": {
                "consolidationPolicy": "WhenEmpty",
                "consolidateAfter": "1s",
                "budgets": [{"nodes": "100%"}],
            },
        },
    }


def a_workload(pool: str) -> Object:
    """A Deployment of one pod that needs a Node of the pool."""
    labels = {"app": pool}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": pool, "namespace": "default"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "nodeSelector": {POOL: pool},
                    "terminationGracePeriodSeconds": 0,
                    "containers": [
                        {
                            "name": "web",
                            "image": "none",
                            "resources": {"requests": {"cpu": "1"}},
                        }
                    ],
                },
            },
        },
    }
