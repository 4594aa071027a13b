"""A short text that every replica reads: an annotation of a separate Lease.

It is not the Lease of the leader election, because a write to that would make a renewal fail. Each
write carries the resourceVersion that was read, so that a late request of a former leader fails.
"""

from typing import Any

from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import NotFound

SECONDS = 2.0
"""Timeout of a request in seconds. A late answer is of little use."""


class NoteStore:
    """Storage of the text. Raises KubeError if a request fails or its outcome is unclear."""

    def __init__(self, kube: Kube, namespace: str, name: str, annotation: str) -> None:
        self._kube, self._namespace = kube, namespace
        self._name, self._annotation = name, annotation
        self._lease: dict[str, Any] | None = None

    async def read(self) -> str:
        """Return the text, "" for none."""
        path = paths.lease(self._namespace, self._name)
        try:
            self._lease = await self._kube.call("GET", path, timeout=SECONDS, attempts=1)
        except NotFound:
            self._lease = None
            return ""
        return str((self._lease["metadata"].get("annotations") or {}).get(self._annotation, ""))

    async def write(self, text: str) -> None:
        """Replace the text that was read last. Raises Conflict or AlreadyExists if it has changed
        since.
        """
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
