"""Computes the probe `ready`, the API server's current view of a node, and writes answers of
probes.

It reads live and not from a cache: a repair may wait for the answer.
"""

import logging
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1.hostprobe import HostProbe
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import KubeError, NotFound
from remedy.hostprobes.gangs import in_gang
from rules.facts import Value

log = logging.getLogger(__name__)

ENDED_PHASES = frozenset({"Succeeded", "Failed"})
OVERDUE = timedelta(minutes=1)
"""A pod that still exists this long after the end of its grace period is stuck."""
READY_PRODUCED: Mapping[str, tuple[str, ...]] = {
    "ready.status": ("True", "False", "Unknown"),
    "ready.statefulset_pods": (),
    "ready.gang_pods": (),
    "ready.pods_stuck_terminating": (),
    "ready.oldest_pending_s": (),
}
"""Every field of the probe `ready`, with the values of a text field."""
LONGEST = 1024
"""Longest error, in characters."""


def ready(
    node: Mapping[str, Any], pods: Iterable[Mapping[str, Any]], now: datetime
) -> dict[str, Value]:
    """Return the fields of the probe, from the Node and the pods that are bound to it."""
    conditions = node.get("status", {}).get("conditions", [])
    status = next((c["status"] for c in conditions if c.get("type") == "Ready"), "Unknown")
    alive = [pod for pod in pods if pod.get("status", {}).get("phase") not in ENDED_PHASES]
    return {
        "status": status,
        "statefulset_pods": any(_owner(pod) == "StatefulSet" for pod in alive),
        "gang_pods": any(map(in_gang, alive)),
        "pods_stuck_terminating": sum(_is_stuck(pod, now) for pod in alive),
        "oldest_pending_s": max((_pending_seconds(pod, now) for pod in alive), default=0.0),
    }


def _is_stuck(pod: Mapping[str, Any], now: datetime) -> bool:
    """Report whether a pod outlived its deletionTimestamp, which includes the grace period."""
    due = pod["metadata"].get("deletionTimestamp")
    return due is not None and now - datetime.fromisoformat(due) > OVERDUE


def _pending_seconds(pod: Mapping[str, Any], now: datetime) -> float:
    """Seconds since a Pending pod was bound to its node; 0 for a pod that started."""
    status = pod.get("status", {})
    if status.get("phase") != "Pending":
        return 0.0
    bound = next(
        (
            c.get("lastTransitionTime")
            for c in status.get("conditions", [])
            if c.get("type") == "PodScheduled" and c.get("status") == "True"
        ),
        None,
    )
    since = bound or pod["metadata"].get("creationTimestamp")
    if since is None:
        return 0.0
    return max((now - datetime.fromisoformat(since)).total_seconds(), 0.0)


def _owner(pod: Mapping[str, Any]) -> str:
    owners = pod["metadata"].get("ownerReferences", [])
    return next((o["kind"] for o in owners if o.get("controller")), "")


async def write(
    kube: Kube, probe: HostProbe, answer: Mapping[str, Value], error: str, now: datetime
) -> None:
    """Write the answer. Raises KubeError: then the write is retried while the probe is open."""
    status = {"answer": dict(answer), "answeredAt": format_time(now), "error": error[:LONGEST]}
    path = paths.custom(HostProbe.resource.plural, probe.metadata.name, "status")
    try:
        await kube.patch(path, {"status": status})
    except NotFound:
        return  # the probe was deleted
    except KubeError:
        log.info("an answer waits for the API server", extra={"probe": probe.metadata.name})
        raise
