"""The probe `ready`, what the API server knows of a node right now, and how an answer is written.

Asked live and not of a cache: the answer may be what a repair waits for.
"""

import logging
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1.hostprobe import HostProbe
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import KubeError, NotFound
from remedy.hostprobes.gangs import in_gang
from rules.facts import Value

log = logging.getLogger(__name__)

OVER = frozenset({"Succeeded", "Failed"})
LONGEST = 1024
"""Characters of an error."""


def ready(node: Mapping[str, Any], pods: Iterable[Mapping[str, Any]]) -> dict[str, Value]:
    """The fields of the probe, from the Node and the pods that are bound to it."""
    conditions = node.get("status", {}).get("conditions", [])
    status = next((c["status"] for c in conditions if c.get("type") == "Ready"), "Unknown")
    alive = [pod for pod in pods if pod.get("status", {}).get("phase") not in OVER]
    return {
        "status": status,
        "statefulset_pods": any(_owner(pod) == "StatefulSet" for pod in alive),
        "gang_pods": any(map(in_gang, alive)),
    }


def _owner(pod: Mapping[str, Any]) -> str:
    owners = pod["metadata"].get("ownerReferences", [])
    return next((o["kind"] for o in owners if o.get("controller")), "")


async def write(
    kube: Kube, probe: HostProbe, answer: Mapping[str, Value], error: str, now: datetime
) -> None:
    """Raises KubeError: then it is tried again while the question is open."""
    status = {"answer": dict(answer), "answeredAt": format_time(now), "error": error[:LONGEST]}
    path = paths.custom(HostProbe.resource.plural, probe.metadata.name, "status")
    try:
        await kube.patch(path, {"status": status})
    except NotFound:
        return  # nobody wants to know any more
    except KubeError:
        log.info("an answer waits for the API server", extra={"probe": probe.metadata.name})
        raise
