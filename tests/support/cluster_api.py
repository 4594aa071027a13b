"""Cluster API's core manager on a control plane, under its own RBAC and with its webhooks.

The API server is its management cluster and its workload cluster. Its infrastructure is
support.kwok_machines.
"""

import base64
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

from support.chart_plane import ready, write_token_config
from support.components import cluster_api_folder, control_plane_folder
from support.control_plane import ControlPlane
from support.daemons import Daemon, Served, free_port
from support.helm import Object, documents
from support.kwok_machines import INFRASTRUCTURE, an_infrastructure
from support.remedy_cluster import established

NAMESPACE, ACCOUNT = "capi-system", "capi-manager"
VERSION = "v1beta2"
GROUP = "cluster.x-k8s.io"
MACHINES = f"/apis/{GROUP}/{VERSION}/namespaces/default/machines"
DEPLOYMENTS = f"/apis/{GROUP}/{VERSION}/namespaces/default/machinedeployments"
HEALTH_CHECKS = f"/apis/{GROUP}/{VERSION}/namespaces/default/machinehealthchecks"
ADMISSION = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
KEPT = (
    "Namespace", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding",
    "CustomResourceDefinition", *ADMISSION,
)  # fmt: skip
"""Kinds of its kustomization that are applied: the manager runs outside the cluster, and the test
issues its certificate.
"""


class ClusterApiManager(Served):
    """The core manager, from its start on ready."""

    READY_SECONDS = 120.0

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self._plane, self._folder = plane, folder
        self._webhook, self._health = free_port(), free_port()
        self._install()
        token = plane.kubectl("create", "token", ACCOUNT, "-n", NAMESPACE).stdout.strip()
        config = write_token_config(plane, token, folder / f"{ACCOUNT}.kubeconfig")
        own = ("POD_NAMESPACE=capi-system", "POD_NAME=capi", "POD_UID=capi")
        flags = (
            f"--kubeconfig={config}",
            f"--webhook-port={self._webhook}",
            f"--webhook-cert-dir={self._serving.cert_file.parent}",
            f"--webhook-cert-name={self._serving.cert_file.name}",
            f"--webhook-key-name={self._serving.key_file.name}",
            f"--health-addr=127.0.0.1:{self._health}",
            "--diagnostics-address=0",
        )
        program = cluster_api_folder() / "clusterapi"
        self._daemon = Daemon("clusterapi", ["env", *own, program, *flags], folder / "capi.log")

    @property
    def log(self) -> str:
        return self._daemon.tail(200)

    def _ready(self) -> bool:
        return ready(f"http://127.0.0.1:{self._health}")

    def _install(self) -> None:
        issued = self._plane.issue_server_cert("capi-webhook", ["127.0.0.1"])
        self._serving = issued
        objects = [found for found in _kustomized() if found["kind"] in KEPT]
        for found in objects:
            self._adapt(found)
        listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        self._plane.kubectl("apply", "--server-side", "-f", "-", stdin=listed)
        established(self._plane, [_crd(o) for o in objects if o["kind"].startswith("CustomRes")])

    def _adapt(self, found: Object) -> None:
        """Have its webhooks called where the manager listens."""
        clients = [hook["clientConfig"] for hook in found.get("webhooks", ())]
        if found["kind"].startswith("CustomRes"):
            conversion = found["spec"].get("conversion", {}).get("webhook")
            clients += [conversion["clientConfig"]] if conversion else []
        for client in clients:
            path = client.pop("service").get("path", "/convert")
            client["url"] = f"https://127.0.0.1:{self._webhook}{path}"
            client["caBundle"] = base64.b64encode(self._plane.ca_file.read_bytes()).decode()


def _crd(found: Object) -> str:
    return f"crd/{found['metadata']['name']}"


def _kustomized() -> list[Object]:
    """Every object of its own kustomization."""
    kubectl, folder = control_plane_folder() / "kubectl", cluster_api_folder() / "config/default"
    words = [str(kubectl), "kustomize", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    return documents(done.stdout)


def a_cluster(plane: ControlPlane) -> list[Object]:
    """The Cluster `self`, with the API server of `plane` as its workload cluster, and a Machine of
    its control plane: without one no MachineHealthCheck acts.
    """
    view = plane.kubectl("config", "view", "--raw", "--flatten", "--minify").stdout
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": f"{GROUP}/secret",
        "metadata": {
            "name": "self-kubeconfig",
            "namespace": "default",
            "labels": {f"{GROUP}/cluster-name": "self"},
        },
        "stringData": {"value": view},
    }
    endpoint = {"host": "127.0.0.1", "port": plane.port}
    cluster = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "Cluster",
        "metadata": {"name": "self", "namespace": "default"},
        "spec": {
            "controlPlaneEndpoint": endpoint,
            "infrastructureRef": _reference("KwokCluster", "self"),
        },
    }
    control_plane = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "Machine",
        "metadata": {
            "name": "control-plane",
            "namespace": "default",
            "labels": {f"{GROUP}/cluster-name": "self", f"{GROUP}/control-plane": ""},
        },
        "spec": {
            "clusterName": "self",
            "version": "v1.37.2",
            "bootstrap": {"dataSecretName": "none"},
            "infrastructureRef": _reference("KwokMachine", "control-plane"),
        },
    }
    infrastructure = an_infrastructure("KwokCluster", "self", {"controlPlaneEndpoint": endpoint})
    host = an_infrastructure("KwokMachine", "control-plane", {})
    return [secret, infrastructure, cluster, host, control_plane]


def a_deployment(name: str, replicas: int, labels: Mapping[str, str]) -> list[Object]:
    """A MachineDeployment and the template of its infrastructure. `labels`: of its Machines."""
    selector = {f"{GROUP}/cluster-name": "self", f"{GROUP}/deployment-name": name}
    deployment = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "MachineDeployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "clusterName": "self",
            "replicas": replicas,
            "selector": {"matchLabels": selector},
            "template": {
                "metadata": {"labels": {**selector, **labels}},
                "spec": {
                    "clusterName": "self",
                    "version": "v1.37.2",
                    "bootstrap": {"dataSecretName": "none"},
                    "infrastructureRef": _reference("KwokMachineTemplate", name),
                },
            },
        },
    }
    template = an_infrastructure("KwokMachineTemplate", name, {"template": {"spec": {}}})
    return [template, deployment]


def _reference(kind: str, name: str) -> Object:
    return {"apiGroup": INFRASTRUCTURE, "kind": kind, "name": name}
