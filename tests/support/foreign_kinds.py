"""Minimal definitions of kinds that other projects own, for real API servers."""

from typing import Any


def a_kind(group: str, version: str, kind: str, plural: str, scope: str) -> dict[str, Any]:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            # cluster.x-k8s.io and karpenter.sh are no *.k8s.io groups of others to approve
            "annotations": {"api-approved.kubernetes.io": "https://example.com/minimal"},
        },
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "scope": scope,
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": anything},
                }
            ],
        },
    }
