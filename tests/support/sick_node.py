"""A node of the embedded API server that falls ill, as its detector says, and a rule for it."""

from typing import Any

from support.defender_objects import instant
from support.embedded import EmbeddedPlane

from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import STRATEGIC_PATCH

JOBS = paths.custom("remedyoperationjobs")


def rule(name: str, *steps: dict[str, Any]) -> dict[str, Any]:
    """Whoever is Sick takes `steps`, of one rung of that name, until that is over."""
    verify = {"for": "1s", "settle": "0s", "timeout": "30m"}
    return {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "NodeRemedier",
        "metadata": {"name": "sick"},
        "spec": {
            "mode": "Enforce",
            "severity": "Critical",
            "faultClass": "sick",
            "nodes": {"all": True},
            "when": {"condition": {"type": "Sick", "for": "1s"}},
            "groupWait": "0s",
            "startupGrace": "0s",
            "ladder": [{"name": name, "steps": list(steps), "verify": verify}],
        },
    }


def say(plane: EmbeddedPlane, node: str, **conditions: str) -> None:
    """What the node's reporter says of it now: the status of each condition."""
    now = instant(SystemClock().now())
    said = [
        {
            "type": type_,
            "status": status,
            "reason": "Test",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        for type_, status in conditions.items()
    ]
    plane.patch(paths.node(node, "status"), {"status": {"conditions": said}}, STRATEGIC_PATCH)
