"""Nodes, policies, permits and jobs as the API server holds them, for tests of whole programs."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

API = "kubenode.io/v1alpha1"
ZONE = "topology.kubernetes.io/zone"
LONG_AGO = "2026-01-01T00:00:00Z"
Object = dict[str, Any]


def instant(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def node_object(
    name: str,
    labels: Mapping[str, str] | None = None,
    *,
    ready: str = "True",
    since: str = "2026-01-02T00:00:00Z",
) -> Object:
    """Born long ago; `since` is when Ready last changed."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": dict(labels or {}), "creationTimestamp": LONG_AGO},
        "status": {
            "conditions": [
                {
                    "type": "Ready",
                    "status": ready,
                    "reason": "Test",
                    "lastHeartbeatTime": "2100-01-01T00:00:00Z",
                    "lastTransitionTime": since,
                }
            ]
        },
    }


def policy_object(name: str = "default", **spec: Any) -> Object:
    """All nodes, one permit at a time, unless `spec` says otherwise."""
    usual = {"nodes": {"all": True}, "limits": [{"scope": "Cluster", "maxConcurrent": 1}]}
    return {
        "apiVersion": API,
        "kind": "DefenderPolicy",
        "metadata": {"name": name},
        "spec": usual | spec,
    }


def permit_object(
    name: str,
    node: str,
    at: datetime,
    *,
    holder: str = "",
    released: datetime | None = None,
    operation: str = "Repair",
    class_: str = "Node",
) -> Object:
    status: Object = {
        "state": "Granted" if released is None else "Released",
        "grantedAt": instant(at),
        "expiresAt": instant(at + timedelta(hours=1)),
        "scopes": ["cluster"],
    }
    if released is not None:
        status["releasedAt"] = instant(released)
    job = holder or f"job-{node}"
    return {
        "apiVersion": API,
        "kind": "Permit",
        "metadata": {"name": name},
        "spec": {
            "operation": operation,
            "class": class_,
            "nodeName": node,
            "holder": {"kind": "RemedyOperationJob", "name": job, "uid": f"uid-{job}"},
            "grants": [{"class": class_, "at": instant(at)}],
        },
        "status": status,
    }


def job_object(node: str, made: datetime, **status: Any) -> Object:
    """The server gives it its uid."""
    return {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "RemedyOperationJob",
        "metadata": {"name": f"job-{node}"},
        "spec": {
            "nodeName": node,
            "agent": node,
            "nodeUID": f"uid-{node}",
            "mode": "Enforce",
            "severity": "Critical",
            "faultClass": "dead",
            "trigger": {"firstTrue": instant(made), "facts": [], "explanation": ""},
            "ladder": [{"name": "tell", "steps": [{"notify": {}}]}],
        },
        "status": {"timeline": {"jobCreated": instant(made)}, **status},
    }
