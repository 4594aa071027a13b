"""Events of the attach-detach controller, each with the Node that waits for the volume.

The controller reports about a pod and names no host. Its pod is assigned to a Node already: volumes
are attached after scheduling. Source: Kubernetes, pkg/controller/volume/attachdetach.
"""

from typing import Any

from msgspec.structs import replace

from kubenode.runtime.clock import Clock
from kubenode.runtime.controller.controller import Controller
from kubenode.runtime.controller.result import DONE, Result
from kubenode.runtime.drain.evictor import pod_list
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import Event, ObjectReference
from kubenode.runtime.kube.store import Handler, ObjectStore

MOST_PODS = 10_000
WORKERS = 2
"""Pods that are read at once: a zone without volumes delays only these Events."""


class AttachEvents:
    """Events of `events`, published to handlers with the pod's Node as `source.host`.

    An Event is withheld while its pod, identified by UID, is unknown or not assigned to a Node.
    Run `controller` also without the lease: a standby replica needs the same facts.
    """

    def __init__(self, kube: Kube, events: Informer[Event], clock: Clock) -> None:
        self._kube, self._events = kube, events
        self._nodes: dict[str, str] = {}
        """Pod UID to the name of its Node; the oldest entry leaves first."""
        self._published: ObjectStore[Event] = ObjectStore("attach events")
        self.controller = Controller(
            "attach-events", self.reconcile, workers=WORKERS, clock=clock, key_is="event"
        )
        self.controller.watch(events, awaited=False)

    def add_handler(self, handler: Handler[Event]) -> None:
        self._published.add_handler(handler)

    async def reconcile(self, key: str) -> Result:
        """Publish the current version of one Event. Raises KubeError."""
        event, published = self._events.get(key), self._published.cache.get(key)
        if event is None:
            self._published.put(key, None)
            return DONE
        version = event.metadata.resource_version
        if published is not None and published.metadata.resource_version == version:
            return DONE
        node = await self._node_of(event.involved_object)
        source = replace(event.source, host=node)
        self._published.put(key, replace(event, source=source) if node else None)
        return DONE

    async def reconcile_all(self) -> None:
        """Publish every Event of the informer's cache: for commands that read once.

        Raises KubeError.
        """
        for key in list(self._events.cache):
            await self.reconcile(key)

    async def _node_of(self, pod: ObjectReference) -> str:
        """Return the name of the Node of a pod, "" for none. A pod never changes its Node."""
        if not (pod.namespace and pod.name and pod.uid):
            return ""
        if (node := self._nodes.get(pod.uid)) is not None:
            return node
        query: dict[str, Any] = {"fieldSelector": f"metadata.name={pod.name}"}
        pods = (await self._kube.get(paths.pods(pod.namespace), pod_list, query)).items
        node = next((item.spec.node_name for item in pods if item.metadata.uid == pod.uid), "")
        if node:
            self._nodes[pod.uid] = node
            while len(self._nodes) > MOST_PODS:
                del self._nodes[next(iter(self._nodes))]
        return node
