"""Garbage collection: dependents of a deleted owner, and the content of namespaces and CRDs.

On a real cluster this is another process. Here it runs on the event loop after the request that
caused it, so it is eventual too.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

from simulation.apiserver.errors import Obj
from simulation.apiserver.objects import (
    CRDS,
    FOREGROUND,
    NAMESPACES,
    DeleteOptions,
    Objects,
    without_owners,
)
from simulation.apiserver.registry import ServedResource
from simulation.apiserver.store import Key, Record


class Collector:
    """Installs itself as the listener of `objects`.

    uninstall: stops serving a CRD.
    """

    def __init__(self, objects: Objects, uninstall: Callable[[Obj], None]) -> None:
        self._objects = objects
        self._uninstall = uninstall
        self._work: deque[Callable[[], None]] = deque()
        objects.removed = self._on_removed
        objects.owned = lambda resource, record: self._later(
            lambda: self._review(resource.qualified, record.key)
        )

    def resume(self) -> None:
        """Continue the work that an earlier server of the same objects left."""
        for collection in self._objects.store.collections():
            for record in collection.records():
                metadata = record.obj["metadata"]
                qualified, key = self._objects.store.by_uid[metadata["uid"]]
                resource = self._objects.registry.find(qualified)
                if resource is not None and metadata.get("deletionTimestamp"):
                    self._on_removed(resource, record)
                if metadata.get("ownerReferences"):
                    self._later(partial(self._review, qualified, key))

    def _later(self, job: Callable[[], None]) -> None:
        if not self._work:
            asyncio.get_running_loop().call_soon(self._run)
        self._work.append(job)

    def _run(self) -> None:
        while self._work:
            self._work[0]()  # stays in the queue while it runs, so that no second run starts
            self._work.popleft()

    def _on_removed(self, resource: ServedResource, record: Record) -> None:
        """React to an object that is gone, or was marked for deletion and waits for others."""
        metadata = record.obj["metadata"]
        gone = self._objects.store.collection(resource.qualified).get(record.key) is None
        if resource.qualified == NAMESPACES and not gone:
            self._later(lambda: self._empty_namespace(metadata["name"]))
            return
        if resource.qualified == CRDS:
            name = metadata["name"]
            self._later(lambda: self._uninstall(record.obj) if gone else self._empty_crd(name))
        if not gone:
            self._later(lambda: self._after_dependents(metadata["uid"]))
            return
        if self._objects.store.dependents(metadata["uid"]):
            self._later(lambda: self._orphaned(metadata["uid"]))
        for owner in metadata.get("ownerReferences") or ():
            if self._goes_last(owner["uid"]):
                self._later(partial(self._after_dependents, owner["uid"]))
        self._check_holders(resource, metadata.get("namespace", ""))

    # ---- owners

    def _orphaned(self, uid: str) -> None:
        for qualified, key in self._objects.store.dependents(uid):
            self._review(qualified, key)

    def _review(self, qualified: str, key: Key) -> None:
        """Delete an object without a living owner; remove dead owners beside living ones."""
        resource = self._objects.registry.find(qualified)
        record = self._objects.store.collection(qualified).get(key)
        if resource is None or record is None or record.obj["metadata"].get("deletionTimestamp"):
            return
        owners = {owner["uid"] for owner in record.obj["metadata"].get("ownerReferences") or ()}
        store = self._objects.store
        dead = {uid for uid in owners if uid not in store.by_uid or self._goes_last(uid)}
        if not dead:
            return
        if dead == owners:
            last = any(uid in store.by_uid for uid in owners) and bool(
                store.dependents(record.obj["metadata"]["uid"])
            )
            self._objects.delete(resource, *key, DeleteOptions(foreground=last))
        else:
            self._objects.put(resource, key[0], without_owners(record.obj, dead))

    def _goes_last(self, uid: str) -> bool:
        """Return whether an owner waits for its dependents (foreground deletion)."""
        place = self._objects.store.by_uid.get(uid)
        record = self._objects.store.collection(place[0]).get(place[1]) if place else None
        return record is not None and bool(
            record.obj["metadata"].get("deletionTimestamp")
            and FOREGROUND in (record.obj["metadata"].get("finalizers") or ())
        )

    def _after_dependents(self, uid: str) -> None:
        """Remove the foreground finalizer of an owner once no dependent blocks it."""
        if not self._goes_last(uid):
            return
        self._orphaned(uid)
        store = self._objects.store
        if any(self._blocks(qualified, key, uid) for qualified, key in store.dependents(uid)):
            return
        qualified, key = store.by_uid[uid]
        record = store.collection(qualified).get(key)
        resource = self._objects.registry.find(qualified)
        if record is not None and resource is not None and self._goes_last(uid):
            metadata = dict(record.obj["metadata"])
            remaining = [name for name in metadata.pop("finalizers") if name != FOREGROUND]
            if remaining:
                metadata["finalizers"] = remaining
            self._objects.put(resource, key[0], {**record.obj, "metadata": metadata})

    def _blocks(self, qualified: str, key: Key, uid: str) -> bool:
        record = self._objects.store.collection(qualified).get(key)
        owners = record.obj["metadata"].get("ownerReferences") or () if record else ()
        return any(owner["uid"] == uid and owner.get("blockOwnerDeletion") for owner in owners)

    # ---- namespaces and CRDs

    def _empty_namespace(self, name: str) -> None:
        for resource in list(self._objects.registry):
            if resource.namespaced:
                collection = self._objects.store.collection(resource.qualified)
                for record in list(collection.records(name)):
                    if not record.obj["metadata"].get("deletionTimestamp"):
                        self._objects.delete(resource, *record.key, DeleteOptions())
        self._finish_namespace(name)

    def _empty_crd(self, name: str) -> None:
        resource = self._objects.registry.find(name)
        if resource is not None:
            for record in list(self._objects.store.collection(name).records()):
                if not record.obj["metadata"].get("deletionTimestamp"):
                    self._objects.delete(resource, *record.key, DeleteOptions())
        self._finish_crd(name)

    def _check_holders(self, resource: ServedResource, namespace: str) -> None:
        """Finish the deletion of a namespace or CRD that may have waited for this object."""
        if namespace and self._is_going(NAMESPACES, namespace):
            self._later(lambda: self._finish_namespace(namespace))
        if resource.crd and self._is_going(CRDS, resource.crd):
            self._later(lambda: self._finish_crd(resource.crd))

    def _is_going(self, qualified: str, name: str) -> bool:
        record = self._objects.store.collection(qualified).get(("", name))
        return record is not None and "deletionTimestamp" in record.obj["metadata"]

    def _finish_namespace(self, name: str) -> None:
        store = self._objects.store
        if any(next(c.records(name), None) is not None for c in store.collections()):
            return
        if self._is_going(NAMESPACES, name):
            record = store.collection(NAMESPACES).get(("", name))
            assert record is not None
            self._objects.finish(self._objects.registry.named(NAMESPACES), record)

    def _finish_crd(self, name: str) -> None:
        store = self._objects.store
        if next(store.collection(name).records(), None) is None and self._is_going(CRDS, name):
            record = store.collection(CRDS).get(("", name))
            assert record is not None
            self._objects.finish(self._objects.registry.named(CRDS), record)
