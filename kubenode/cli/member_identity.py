"""The objects of an imported member: its identity in the member, its credentials here. Pure."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from captain.members.client import PLURALS
from captain.members.probe import MACHINES, PAYLOAD_VERBS
from kubenode.api.base import API_VERSION
from kubenode.api.v1alpha1 import MemberCluster
from kubenode.api.v1alpha1.membercluster import (
    KUBECONFIG_KEY,
    KUBECONFIG_SECRET_TYPE,
    PAYLOAD_KINDS,
)
from kubenode.runtime.kube import paths

IDENTITY = "kubenode-captain-member"
"""Name of the ServiceAccount, the ClusterRole and the ClusterRoleBinding in a member."""
IDENTITY_NAMESPACE = "kubenode-system"
CAPTAIN_LABEL = "kubenode.io/captain"
"""Label on an identity: the UID of the namespace kube-system of Captain's cluster."""
IMPORTED_LABEL = "kubenode.io/imported"
"""Label on a MemberCluster and its Secret: `kubenode member import` created them."""
RENEWED_BY, RENEWED_AT = "kubenode.io/token-renewed-by", "kubenode.io/token-renewed-at"
"""Annotations of a MemberCluster: user and time of the last `kubenode member renew`."""
RBAC = "rbac.authorization.k8s.io"

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class MemberEndpoint:
    """The API server of a member as Captain reaches it.

    authority: PEM of the certificate authority, "" for those of the system.
    server_name: name in the certificate, "" for the host of the URL.
    """

    server: str
    authority: str = ""
    server_name: str = ""


def build_identity(captain: str) -> list[tuple[str, Object]]:
    """Return the objects to create in the member, each with its path.

    captain: UID that identifies the cluster of Captain.
    """
    subject = {"kind": "ServiceAccount", "name": IDENTITY, "namespace": IDENTITY_NAMESPACE}
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": IDENTITY}
    labels = {CAPTAIN_LABEL: captain}
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": IDENTITY, "namespace": IDENTITY_NAMESPACE, "labels": labels},
        "automountServiceAccountToken": False,
    }
    role = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": IDENTITY, "labels": labels},
        "rules": build_rules(),
    }
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": IDENTITY, "labels": labels},
        "roleRef": reference,
        "subjects": [subject],
    }
    return [
        (account_path(), account),
        (rbac_path("clusterroles"), role),
        (rbac_path("clusterrolebindings"), binding),
    ]


def build_rules() -> list[Object]:
    """Return the rights of Captain in a member."""
    return [
        {
            "apiGroups": [paths.GROUP],
            "resources": sorted(PLURALS[kind] for kind in PAYLOAD_KINDS),
            "verbs": list(PAYLOAD_VERBS),
        },
        {"apiGroups": [paths.GROUP], "resources": [MACHINES], "verbs": ["list"]},
        {
            "apiGroups": ["authorization.k8s.io"],
            "resources": ["selfsubjectrulesreviews"],
            "verbs": ["create"],
        },
        {
            "nonResourceURLs": ["/version", f"/apis/{paths.GROUP}/{paths.VERSION}"],
            "verbs": ["get"],
        },
    ]


def account_path(subresource: str | None = None) -> str:
    return paths.resource(
        "/api/v1",
        "serviceaccounts",
        namespace=IDENTITY_NAMESPACE,
        name=IDENTITY,
        subresource=subresource,
    )


def rbac_path(plural: str) -> str:
    return paths.resource(f"/apis/{RBAC}/v1", plural, name=IDENTITY)


def secret_path(namespace: str, name: str) -> str:
    return paths.resource("/api/v1", "secrets", namespace=namespace, name=name)


def build_kubeconfig(name: str, endpoint: MemberEndpoint, token: str) -> bytes:
    """Return a kubeconfig with embedded credentials, as captain.members.kubeconfig reads it."""
    cluster = {"server": endpoint.server}
    if endpoint.authority:
        encoded = base64.b64encode(endpoint.authority.encode()).decode()
        cluster["certificate-authority-data"] = encoded
    if endpoint.server_name:
        cluster["tls-server-name"] = endpoint.server_name
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "users": [{"name": name, "user": {"token": token}}],
    }
    return json.dumps(config, indent=1).encode()


def build_secret(namespace: str, name: str, kubeconfig: bytes) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace, "labels": {IMPORTED_LABEL: "true"}},
        "type": KUBECONFIG_SECRET_TYPE,
        "data": {KUBECONFIG_KEY: base64.b64encode(kubeconfig).decode()},
    }


def build_member(name: str, labels: Mapping[str, str]) -> Object:
    return {
        "apiVersion": API_VERSION,
        "kind": MemberCluster.__name__,
        "metadata": {"name": name, "labels": {**labels, IMPORTED_LABEL: "true"}},
        "spec": {"kubeconfigRef": name},
    }


def is_imported(obj: Mapping[str, Any]) -> bool:
    """Return whether `kubenode member import` created the object."""
    return (obj["metadata"].get("labels") or {}).get(IMPORTED_LABEL) == "true"


def find_captain(obj: Mapping[str, Any]) -> str:
    """Return the UID of the Captain that an identity belongs to, "" for none."""
    return str((obj["metadata"].get("labels") or {}).get(CAPTAIN_LABEL, ""))
