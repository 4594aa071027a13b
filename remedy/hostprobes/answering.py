"""What the operator itself answers: `ready`, what the API server knows of a node right now.

Asked live and not of a cache: the answer may be what a repair waits for.
"""

import logging
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1.hostprobe import HostProbe, ProbeName
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import KubeError, NotFound
from rules.facts import Value

log = logging.getLogger(__name__)

ANSWERED_HERE = frozenset({ProbeName.READY})
GANG_MARKS = frozenset(
    {
        "scheduling.k8s.io/group-name",  # Volcano, kube-batch
        "scheduling.x-k8s.io/pod-group",  # coscheduling of scheduler-plugins
        "pod-group.scheduling.sigs.k8s.io",  # the same before 0.24
        "training.kubeflow.org/job-name",  # Kubeflow's training operator
        "jobset.sigs.k8s.io/jobset-name",
        "leaderworkerset.sigs.k8s.io/name",
        "kueue.x-k8s.io/pod-group-name",
    }
)
"""Labels or annotations of pods that stand and fall together: one that leaves stops them all."""
OVER = frozenset({"Succeeded", "Failed"})


def ready(node: Mapping[str, Any], pods: Iterable[Mapping[str, Any]]) -> dict[str, Value]:
    """The fields of the probe, from the Node and the pods that are bound to it."""
    conditions = node.get("status", {}).get("conditions", [])
    status = next((c["status"] for c in conditions if c.get("type") == "Ready"), "Unknown")
    alive = [pod for pod in pods if pod.get("status", {}).get("phase") not in OVER]
    return {
        "status": status,
        "statefulset_pods": any(_owner(pod) == "StatefulSet" for pod in alive),
        "gang_pods": any(map(_in_gang, alive)),
    }


def _owner(pod: Mapping[str, Any]) -> str:
    owners = pod["metadata"].get("ownerReferences", [])
    return next((o["kind"] for o in owners if o.get("controller")), "")


def _in_gang(pod: Mapping[str, Any]) -> bool:
    meta = pod["metadata"]
    return not GANG_MARKS.isdisjoint({**meta.get("labels", {}), **meta.get("annotations", {})})


async def answer(kube: Kube, probe: HostProbe, now: datetime) -> None:
    """Read and write the answer. Raises KubeError: then it is tried again while it is open."""
    said, error = await _found(kube, probe)
    status = {"answer": said, "answeredAt": format_time(now), "error": error}
    path = paths.custom(HostProbe.resource.plural, probe.metadata.name, "status")
    try:
        await kube.patch(path, {"status": status})
    except NotFound:
        return  # nobody wants to know any more
    except KubeError:
        log.info("an answer waits for the API server", extra={"probe": probe.metadata.name})
        raise


async def _found(kube: Kube, probe: HostProbe) -> tuple[dict[str, Value], str]:
    """The answer, or why there is none."""
    name = probe.spec.node_name
    try:
        node = await kube.get(paths.node(name))
        listed = await kube.get(paths.pods(), query={"fieldSelector": f"spec.nodeName={name}"})
    except NotFound:
        return {}, f"node {name}: no such node"
    return ready(node, listed["items"]), ""
