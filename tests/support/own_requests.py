"""Every request that the API server serves for KubeNode's kinds, and every right of its roles.

Both are discovered: from the API server and from the chart. A new kind or right is covered.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML
from support.chart_rights import FILES
from support.control_plane import ControlPlane
from support.helm import CHART
from support.rights import Question

OURS = "kubenode.io"
API = f"/apis/{OURS}/v1alpha1"
NAMESPACES = ("kubenode-system", "kubenode-agents", "kubenode-components")
OBJECT = "any"
"""Name of the object in requests: the API server authorizes a request before it looks it up."""
PATCH_KIND = "application/merge-patch+json"


@dataclass(frozen=True)
class OwnRequest:
    """One verb on one resource or subresource, as a dry run."""

    verb: str
    resource: str
    method: str
    path: str
    body: Any = None

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}"


def own_requests(cp: ControlPlane) -> list[OwnRequest]:
    """Each verb of each resource and subresource that the API server lists for our group."""
    return [found for served in cp.get(API)["resources"] for found in _requests(served)]


def _requests(served: dict[str, Any]) -> Iterator[OwnRequest]:
    plural, _, subresource = served["name"].partition("/")
    collection = f"{API}/namespaces/default/{plural}" if served["namespaced"] else f"{API}/{plural}"
    one = f"{collection}/{OBJECT}" + (f"/{subresource}" if subresource else "")
    body = {
        "apiVersion": f"{OURS}/v1alpha1",
        "kind": served["kind"],
        "metadata": {"name": OBJECT},
        "spec": {},
    }
    ways = {
        "get": ("GET", one, None),
        "list": ("GET", collection, None),
        "watch": ("GET", f"{collection}?watch=true&timeoutSeconds=1", None),
        "create": ("POST", f"{collection}?dryRun=All", body),
        "update": ("PUT", f"{one}?dryRun=All", body),
        "patch": ("PATCH", f"{one}?dryRun=All", {"metadata": {"labels": {"a": "b"}}}),
        "delete": ("DELETE", f"{one}?dryRun=All", None),
        "deletecollection": ("DELETE", f"{collection}?dryRun=All", None),
    }
    for verb in served["verbs"]:
        yield OwnRequest(verb, served["name"], *ways[verb])


def own_rights() -> list[Question]:
    """Each right on our group that a ClusterRole of the chart gives, also on virtual resources."""
    found = set()
    for file in FILES:
        for document in YAML(typ="safe").load_all((CHART / f"{file}.yaml").read_text()):
            if document is None or document["kind"] != "ClusterRole":
                continue
            for rule in document.get("rules") or ():
                if OURS not in rule.get("apiGroups", ()):
                    continue
                found |= {
                    (v, OURS, r, "", OBJECT) for v in rule["verbs"] for r in rule["resources"]
                }
    return sorted(found)


def rights_in_own_namespaces() -> list[Question]:
    """Rights in KubeNode's namespaces by which its programs could be replaced or read."""
    kinds = {
        "": ("pods", "pods/exec", "secrets", "configmaps", "serviceaccounts/token", "services"),
        "apps": ("deployments", "daemonsets"),
        "batch": ("jobs",),
        "coordination.k8s.io": ("leases",),
        "rbac.authorization.k8s.io": ("roles", "rolebindings"),
    }
    verbs = ("get", "list", "watch", "create", "update", "patch", "delete")
    return [
        (verb, group, resource, namespace, OBJECT)
        for namespace in NAMESPACES
        for group, resources in kinds.items()
        for resource in resources
        for verb in verbs
    ]


def cluster_rights() -> list[Question]:
    """Rights by which the rules of the chart could be lifted."""
    kinds = {
        "apiextensions.k8s.io": ("customresourcedefinitions",),
        "admissionregistration.k8s.io": (
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
            "validatingwebhookconfigurations",
            "mutatingwebhookconfigurations",
        ),
        "rbac.authorization.k8s.io": ("clusterroles", "clusterrolebindings"),
        "certificates.k8s.io": (
            "certificatesigningrequests/approval",
            "certificatesigningrequests/status",
        ),
    }
    verbs = ("create", "update", "patch", "delete")
    return [
        (verb, group, resource, "", OBJECT)
        for group, resources in kinds.items()
        for resource in resources
        for verb in verbs
    ]
