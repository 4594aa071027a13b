"""Finds the pod of Kube Defender that serves the dashboard.

Any replica serves it, but without Redis only the leader knows all permits: it comes first.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kubenode.cli.exits import Refusal
from kubenode.cli.fleet_state import DEFENDER
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import NotFound
from kubenode.runtime.kube.lists import items
from kubenode.runtime.kube.portforward import PodPort

SERVICE = "kubenode-dashboard"
SELECTOR = f"app.kubernetes.io/name={DEFENDER}"
Object = Mapping[str, Any]


async def find_dashboard(kube: Kube, namespace: str) -> PodPort:
    """Return the port of a pod that serves the dashboard. Raises Refusal if there is none."""
    port = await _service_port(kube, namespace)
    pods = [pod async for pod in items(kube, paths.pods(namespace), selector=SELECTOR)]
    pod = choose_pod(pods, await _leader(kube, namespace))
    if pod is None:
        raise Refusal(
            f"no pod of Kube Defender is ready in namespace {namespace} ({len(pods)} exist);"
            f" `kubectl get pods -n {namespace} -l {SELECTOR}` shows them, `kubenode doctor` says"
            " what is missing"
        )
    return PodPort(namespace, pod, port)


def choose_pod(pods: Sequence[Object], holder: str) -> str | None:
    """Return the ready pod that leads, else the first ready one by name, None without any.

    holder: identity of the leader: the name of its pod and a random suffix; "" for no leader.
    """
    ready = sorted(pod["metadata"]["name"] for pod in pods if _is_ready(pod))
    leader = holder.rpartition("-")[0]
    return leader if leader in ready else next(iter(ready), None)


def _is_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


async def _service_port(kube: Kube, namespace: str) -> int:
    path = paths.resource("/api/v1", "services", namespace=namespace, name=SERVICE)
    try:
        service = await kube.get(path)
    except NotFound as error:
        raise Refusal(
            f"Service {SERVICE} does not exist in namespace {namespace}: install the chart with"
            " `--set defender.dashboard.enabled=true`, name its namespace with -n, or name the"
            " address of the dashboard with --url"
        ) from error
    target = service["spec"]["ports"][0].get("targetPort")
    if not isinstance(target, int):
        raise Refusal(f"Service {SERVICE}: its targetPort is {target!r} and no number: set it so")
    return target


async def _leader(kube: Kube, namespace: str) -> str:
    """Return the identity of the leader, "" if none has ever led: replicas with Redis have none."""
    try:
        lease = await kube.get(paths.lease(namespace, DEFENDER))
    except NotFound:
        return ""
    return str(lease["spec"].get("holderIdentity") or "")
