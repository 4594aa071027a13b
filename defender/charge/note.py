"""A short text that every replica reads: an annotation of a Lease of its own.

Not the Lease that leaders are elected by: that one is renewed every other second, and a write to
it would make a renewal fail. Each write here carries the resourceVersion that was read, so that a
request of a former leader which arrives late changes nothing.
"""

from typing import Any

from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import NotFound

SECONDS = 2.0
"""For one request: what is read late is worth little."""


class NoteStore:
    """Raises KubeError for each request that fails or whose outcome is unclear."""

    def __init__(self, kube: Kube, namespace: str, name: str, annotation: str) -> None:
        self._kube, self._namespace = kube, namespace
        self._name, self._annotation = name, annotation
        self._lease: dict[str, Any] | None = None

    async def read(self) -> str:
        """ "" for nothing."""
        path = paths.lease(self._namespace, self._name)
        try:
            self._lease = await self._kube.call("GET", path, timeout=SECONDS, attempts=1)
        except NotFound:
            self._lease = None
            return ""
        return str((self._lease["metadata"].get("annotations") or {}).get(self._annotation, ""))

    async def write(self, text: str) -> None:
        """Only over what was read last: Conflict or AlreadyExists if somebody wrote since."""
        old = self._lease or self._new()
        meta = old["metadata"]
        annotations = (meta.get("annotations") or {}) | {self._annotation: text}
        lease = old | {"metadata": meta | {"annotations": annotations}}
        method, path = "PUT", paths.lease(self._namespace, self._name)
        if self._lease is None:
            method, path = "POST", paths.leases(self._namespace)
        self._lease = await self._kube.call(method, path, body=lease, timeout=SECONDS)

    def _new(self) -> dict[str, Any]:
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": {},
        }
