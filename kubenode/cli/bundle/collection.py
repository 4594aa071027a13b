"""Reads the contents of a bundle from the cluster, one request after another.

Secrets are never read, even if the caller may read them. An object that cannot be read is noted in
the manifest with the reason, and the collection goes on.
"""

import platform
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from kubenode.api.v1alpha1 import KINDS, JobPhase
from kubenode.cli.bundle.contents import LARGEST_FILE, BundleContents, fitting
from kubenode.cli.bundle.redaction import clean, without_secrets
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import KubeError
from kubenode.runtime.kube.lists import PAGE, items
from machine.names import LEASES

AGENT = "kubenode-agent"
MOST_PODS = 16
"""Agent pods whose logs and metrics are read, those that are not ready first. The pods of all other
programs are read too; their number is bounded by the replicas.
"""
LOG_LINES = 5000
LOG_BYTES = 2 * 2**20
OPEN = frozenset(phase for phase in JobPhase if not phase.closed)
OF_NODE = ("nodeInfo", "conditions", "allocatable")
ADMISSION = "/apis/admissionregistration.k8s.io/v1"

Object = dict[str, Any]


class Gathering:
    def __init__(self, kube: Kube, namespace: str, contents: BundleContents) -> None:
        self._kube, self._namespace, self._contents = kube, namespace, contents

    async def all(self) -> None:
        await self._versions()
        for kind in KINDS:
            plural = kind.resource.plural
            await self._objects(f"resources/{plural}.json", paths.custom(plural))
        await self._objects("nodes.json", paths.nodes(), reduced=True)
        for plural in ("deployments", "daemonsets"):
            path = f"/apis/apps/v1/namespaces/{self._namespace}/{plural}"
            await self._objects(f"workloads/{plural}.json", path)
        await self._objects(
            "workloads/poddisruptionbudgets.json", paths.pod_disruption_budgets(self._namespace)
        )
        for plural in ("validatingwebhookconfigurations", "mutatingwebhookconfigurations"):
            await self._objects(f"webhooks/{plural}.json", f"{ADMISSION}/{plural}", ours=True)
        for namespace in (self._namespace, LEASES):
            await self._objects(f"leases/{namespace}.json", paths.leases(namespace))
        for namespace in (self._namespace, "default"):
            await self._objects(f"events/{namespace}.json", paths.events(namespace))
        for pod in await self._pods():
            await self._pod(pod)

    # -- objects -------------------------------------------------------------------------------

    async def _versions(self) -> None:
        versions: Object = {"kubenode": version("kubenode"), "python": platform.python_version()}
        try:
            versions["server"] = await self._kube.get("/version")
            versions["crds"] = [
                {
                    "name": crd["metadata"]["name"],
                    "generation": crd["metadata"].get("generation"),
                    "storedVersions": crd.get("status", {}).get("storedVersions", []),
                }
                async for crd in items(self._kube, paths.custom_resource_definitions())
                if crd["metadata"]["name"].endswith(f".{paths.GROUP}")
            ]
        except KubeError as error:
            self._contents.lacks("versions.json", f"of the server: {error}")
        self._contents.add_json("versions.json", versions)

    async def _objects(
        self, name: str, path: str, *, reduced: bool = False, ours: bool = False
    ) -> list[Object]:
        """Add the objects of a list to the file `name` and return them: open and newest first.

        At most LARGEST_FILE bytes are kept.

        reduced: keep only the fields of a Node that `_short` returns.
        ours: keep only objects whose names begin with "kubenode".
        """
        retained: list[Object] = []
        count = 0
        try:
            async for obj in items(self._kube, path):
                if ours and not obj["metadata"]["name"].startswith("kubenode"):
                    continue
                count += 1
                retained.append(without_secrets(_short(obj) if reduced else obj))
                if len(retained) % PAGE == 0:
                    retained = fitting(retained, _weight, LARGEST_FILE)
        except KubeError as error:
            self._contents.lacks(name, str(error))
            if not retained:
                return []
        retained = fitting(retained, _weight, LARGEST_FILE)
        note = (
            "" if len(retained) == count else f"{len(retained)} of {count}, open and newest first"
        )
        self._contents.add_json(name, retained, note)
        return retained

    # -- pods ----------------------------------------------------------------------------------

    async def _pods(self) -> list[Object]:
        """Return the pods whose logs and metrics are read: all central ones, and some agents."""
        pods = await self._objects("workloads/pods.json", paths.pods(self._namespace))
        if not pods:
            why = "no pods: KubeNode does not run there, or runs outside of the cluster"
            self._contents.lacks(f"logs and metrics of namespace {self._namespace}", why)
        agents = [pod for pod in pods if _is_agent(pod)]
        agents.sort(key=lambda pod: (_ready(pod), pod["metadata"]["name"]))
        if len(agents) > MOST_PODS:
            self._contents.lacks("logs of other agents", f"{MOST_PODS} of {len(agents)} are read")
        return [pod for pod in pods if not _is_agent(pod)] + agents[:MOST_PODS]

    async def _pod(self, pod: Object) -> None:
        name = pod["metadata"]["name"]
        for container in pod.get("spec", {}).get("containers", ()):
            await self._log(name, container["name"], previous=False)
            if _restarted(pod, container["name"]):
                await self._log(name, container["name"], previous=True)
            for port in container.get("ports", ()):
                if port.get("name") == "metrics":
                    target = f"{name}:{port['containerPort']}"
                    path = paths.pod(self._namespace, target, "proxy/metrics")
                    await self._text(f"metrics/{name}.txt", path, {})

    async def _log(self, pod: str, container: str, *, previous: bool) -> None:
        query = {
            "container": container,
            "tailLines": str(LOG_LINES),
            "limitBytes": str(LOG_BYTES),
            "timestamps": "true",
        }
        before = "-previous" if previous else ""
        query |= {"previous": "true"} if previous else {}
        path = paths.pod(self._namespace, pod, "log")
        await self._text(f"logs/{pod}-{container}{before}.log", path, query)

    async def _text(self, name: str, path: str, query: Mapping[str, str]) -> None:
        try:
            raw = await self._kube.get(path, decode=bytes, query=query)
        except KubeError as error:
            self._contents.lacks(name, str(error))
            return
        self._contents.add(name, clean(raw.decode(errors="replace")))


def _weight(obj: Object) -> tuple[bool, str]:
    phase = (obj.get("status") or {}).get("phase", "")
    return phase in OPEN, str(obj["metadata"].get("creationTimestamp") or "")


def _short(node: Object) -> Object:
    """Return a Node without images, addresses and volumes, so that thousands fit into a file."""
    metadata, status = node["metadata"], node.get("status") or {}
    names = ("name", "uid", "labels", "annotations", "creationTimestamp", "deletionTimestamp")
    return {
        "metadata": {name: metadata[name] for name in names if name in metadata},
        "spec": node.get("spec") or {},
        "status": {name: status[name] for name in OF_NODE if name in status},
    }


def _is_agent(pod: Object) -> bool:
    return str(pod["metadata"]["name"]).startswith(AGENT)


def _ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def _restarted(pod: Object, container: str) -> bool:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return any(s.get("name") == container and s.get("restartCount", 0) > 0 for s in statuses)
