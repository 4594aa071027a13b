"""Workloads for real kubelets, of the one image that their hosts have."""

from typing import Any

from support.node_files import IMAGE

SERVE = (
    "trap 'exit 0' TERM; httpd -p 8080 -h /www;"
    " touch /www/index.html; while :; do sleep 3600 & wait; done"
)
Thing = dict[str, Any]


def deployment(name: str, replicas: int, on: str = "") -> Thing:
    """A web server, ready once it answers; `on` binds it to one node's host name."""
    pod = _pod(name, on)
    pod["containers"][0]["readinessProbe"] = {
        "httpGet": {"path": "/", "port": 8080},
        "periodSeconds": 1,
        "timeoutSeconds": 5,
    }
    return _controller("Deployment", name, replicas, pod)


def stateful_set(name: str, replicas: int) -> Thing:
    """Its pods can be told apart on any host: a process has the pod's name as its last word."""
    made = _controller("StatefulSet", name, replicas, _pod(name))
    made["spec"] |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    return made


def budget(name: str, **spec: int) -> Thing:
    """`minAvailable=` or `maxUnavailable=` of the pods of the controller `name`."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {**spec, "selector": {"matchLabels": {"app": name}}},
    }


def _controller(kind: str, name: str, replicas: int, pod: Thing) -> Thing:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _pod(name: str, on: str = "") -> Thing:
    container = {
        "name": name,
        "image": IMAGE,
        "command": ["sh", "-c", SERVE, "$(POD)"],
        "env": [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "resources": {"requests": {"cpu": "10m", "memory": "8Mi"}, "limits": {"memory": "32Mi"}},
    }
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": name}},
    }
    return {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 2,
        "topologySpreadConstraints": [spread],
        **({"nodeSelector": {"kubernetes.io/hostname": on}} if on else {}),
        "containers": [container],
    }
