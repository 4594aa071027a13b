"""What the chart lets the remedy operator do, asked of a real API server."""

import json
from typing import Any

import pytest
from support.registry_plane import ACCOUNT, RegistryPlane

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

OURS, SYSTEM = "kubenode.io", "kubenode-system"
MAY = [
    ("watch", OURS, "noderemediers", "", ""),
    ("patch", OURS, "noderemediers/status", "", "any"),
    ("create", OURS, "remedyoperationjobs", "", ""),
    ("patch", OURS, "remedyoperationjobs", "", "any"),
    ("patch", OURS, "remedyoperationjobs/status", "", "any"),
    ("delete", OURS, "remedyoperationjobs", "", "any"),
    ("watch", OURS, "hostevents", "", ""),
    ("create", OURS, "hostprobes", "", ""),
    ("delete", OURS, "hostprobes", "", "any"),
    ("patch", OURS, "hostprobes/status", "", "any"),
    ("patch", "", "nodes", "", "any"),
    ("watch", "", "events", "", ""),
    ("create", "", "events", "default", ""),
    ("patch", "", "events", "default", "any"),
    ("list", "", "pods", "", ""),
    ("create", "", "pods/eviction", "shop", "any"),
    ("list", "policy", "poddisruptionbudgets", "", ""),
    ("create", "coordination.k8s.io", "leases", SYSTEM, ""),
    ("update", "coordination.k8s.io", "leases", SYSTEM, "kubenode-remedy"),
    ("create", "apps", "controllerrevisions", SYSTEM, ""),
    ("get", "", "secrets", SYSTEM, "kubenode-remedy-webhook"),
    ("patch", "", "secrets", SYSTEM, "kubenode-remedy-webhook"),
    ("patch", "admissionregistration.k8s.io", "validatingwebhookconfigurations", "",
     "kubenode-remedy"),
]  # fmt: skip
MAY_NOT = [
    ("patch", OURS, "noderemediers", "", "any"),
    ("create", OURS, "noderemediers", "", ""),
    ("patch", OURS, "defenderpolicies", "", "default"),
    ("create", OURS, "permits", "", ""),
    ("delete", "", "nodes", "", "any"),
    ("delete", "", "pods", "shop", "any"),
    ("list", "", "secrets", SYSTEM, ""),
    ("create", "", "secrets", SYSTEM, ""),
    ("get", "", "secrets", SYSTEM, "another"),
    ("get", "", "secrets", "shop", "kubenode-remedy-webhook"),
    ("update", "coordination.k8s.io", "leases", SYSTEM, "kubenode-defender"),
    ("patch", "coordination.k8s.io", "leases", "kubenode-agents", "any"),
    ("create", "apps", "controllerrevisions", "shop", ""),
    ("patch", "admissionregistration.k8s.io", "validatingwebhookconfigurations", "", "another"),
    ("create", "admissionregistration.k8s.io", "validatingwebhookconfigurations", "", ""),
]


def a_question(verb: str, group: str, resource: str, namespace: str, name: str) -> dict[str, Any]:
    plural, _, sub = resource.partition("/")
    about = {"verb": verb, "group": group, "resource": plural, "subresource": sub}
    attributes = {**about, "namespace": namespace, "name": name}
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": ACCOUNT, "resourceAttributes": attributes},
    }


def test_the_operator_may_do_its_work_and_nothing_else(plane: RegistryPlane) -> None:
    questions = [a_question(*asked) for asked in (*MAY, *MAY_NOT)]
    listed = {"apiVersion": "v1", "kind": "List", "items": questions}
    said = plane.cp.kubectl("create", "-f", "-", "-o", "json", stdin=json.dumps(listed))
    answers = [item["status"]["allowed"] for item in _objects(said.stdout)]
    wrong = [
        (asked, allowed)
        for asked, allowed in zip((*MAY, *MAY_NOT), answers, strict=True)
        if allowed is not (asked in MAY)
    ]
    assert wrong == []


def _objects(text: str) -> list[dict[str, Any]]:
    """kubectl prints one List, or one object after the other."""
    found: list[dict[str, Any]] = []
    decoder = json.JSONDecoder()
    while text := text.lstrip():
        one, end = decoder.raw_decode(text)
        found += one["items"] if one["kind"] == "List" else [one]
        text = text[end:]
    return found
