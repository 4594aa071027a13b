"""The life of an object: create, update, delete, by the rules of every kind.

The order of a write is that of a real server: prepare, compare and set, keep what the other
endpoint owns (status or the rest), prune, default, validate, admission hooks, detect that nothing
changed, commit. There is no `await` in it, so writes never interleave.
Source: apiserver `pkg/registry/rest/{create,update,delete}.go`, `pkg/registry/generic/registry`.
"""

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from simulation.apiserver import field_tracker, kinds, validation
from simulation.apiserver.admission import Admission
from simulation.apiserver.errors import (
    ApiError,
    Cause,
    Obj,
    already_exists,
    bad_request,
    conflict,
    invalid,
    modified,
    no_such_object,
    unreadable,
)
from simulation.apiserver.field_tracker import Writer
from simulation.apiserver.registry import Registry, ServedResource
from simulation.apiserver.selectors import Selection
from simulation.apiserver.store import Record, Store

SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
OWN_METADATA = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
)
"""Metadata that only the server writes."""
PERMANENT_NAMESPACES = ("default", "kube-system", "kube-node-lease", "kube-public")
FOREGROUND = "foregroundDeletion"
"""The finalizer of an owner that is deleted after its dependents; the collector removes it."""
NAMESPACES = "namespaces"
CRDS = "customresourcedefinitions.apiextensions.k8s.io"


@dataclass(slots=True)
class WriteOptions:
    """Options of a write.

    validation: how unknown fields are handled: "Ignore", "Warn" or "Strict".
    patch: the object was made by a patch, whose refusals differ.
    """

    dry_run: bool = False
    validation: str = "Warn"
    patch: bool = False
    writer: Writer = field(default_factory=Writer)
    warnings: list[str] = field(default_factory=list)

    def unknown(self, resource: ServedResource, paths: list[str]) -> None:
        """Report unknown fields. Raises ApiError 400 or 422 if "Strict"."""
        messages = [f'unknown field "{path}"' for path in sorted(paths)]
        if messages and self.validation == "Strict":
            why = f"strict decoding error: {', '.join(messages)}"
            raise unreadable(resource, why, self.patch)
        if self.validation == "Warn":
            self.warnings += messages


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """Options of a deletion.

    grace: seconds; None for that of the object.
    uid, rv: preconditions; "" for none.
    """

    grace: int | None = None
    uid: str = ""
    rv: str = ""
    orphan: bool = False
    foreground: bool = False
    dry_run: bool = False


def timestamp(moment: datetime) -> str:
    """Return RFC 3339 in whole seconds, as metav1.Time.

    moment: in UTC.
    """
    return moment.isoformat(timespec="seconds")[:19] + "Z"


def new_uid() -> str:
    """Return a random UUID (RFC 9562, version 4)."""
    digits = os.urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) % 4]
    tail = f"{variant}{digits[17:20]}-{digits[20:]}"
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{tail}"


class Objects:
    """Every object of one server.

    removed: called after an object is gone, or was marked for deletion while it has content or is
        deleted after its dependents. Serves the garbage collector.
    owned: called after an object with owners was created. Serves the garbage collector.
    install: takes a CRD before it is written and returns it with its status.
    """

    def __init__(
        self,
        registry: Registry,
        store: Store,
        admission: Admission,
        now: Callable[[], datetime],
        install: Callable[[Obj], Obj],
    ) -> None:
        self.registry = registry
        self.store = store
        self.now = now
        self.removed: Callable[[ServedResource, Record], None] = lambda resource, record: None
        self.owned: Callable[[ServedResource, Record], None] = lambda resource, record: None
        self._admission = admission
        self._install = install

    def stamp(self) -> str:
        """Return the current time as metav1.Time."""
        return timestamp(self.now())

    # ---- reads

    def get(self, resource: ServedResource, namespace: str, name: str) -> Record:
        """Return an object. Raises ApiError 404."""
        record = self.store.collection(resource.qualified).get((namespace, name))
        if record is None:
            raise no_such_object(resource, name)
        return record

    # ---- create

    def create(
        self, resource: ServedResource, namespace: str, given: Obj, options: WriteOptions
    ) -> Record:
        """Create an object. Raises ApiError 400, 403, 404 (namespace), 409, 422.

        given: must not be changed afterwards.
        """
        obj = self._prepare(resource, namespace, given)
        metadata = obj["metadata"]
        if not metadata.get("name") and metadata.get("generateName"):
            suffix = "".join(random.choices(SUFFIX_LETTERS, k=5))
            metadata["name"] = metadata["generateName"][:58] + suffix
        if metadata.get("resourceVersion"):
            raise ApiError(
                500,
                "",
                "resourceVersion should not be set on objects to be created",
            )
        if resource.namespaced:
            self._check_namespace(resource, namespace, metadata.get("name", ""))
        for key in OWN_METADATA:
            metadata.pop(key, None)
        metadata["uid"] = new_uid()
        metadata["creationTimestamp"] = self.stamp()
        if resource.generation:
            metadata["generation"] = 1
        obj = self._settle(resource, kinds.on_create(resource, obj), None, options)
        field_tracker.note(resource, None, obj, options.writer, self.stamp)
        place = (namespace, metadata["name"])
        if self.store.collection(resource.qualified).get(place) is not None:
            raise already_exists(resource, metadata["name"])
        if resource.qualified == CRDS:
            obj = self._install(obj) if not options.dry_run else obj
        if options.dry_run:
            return Record.of(obj, 0)
        record = self.store.commit(resource.qualified, "ADDED", obj)
        if metadata.get("ownerReferences"):
            self.owned(resource, record)
        return record

    def _check_namespace(self, resource: ServedResource, namespace: str, name: str) -> None:
        record = self.store.collection(NAMESPACES).get(("", namespace))
        if record is None:
            raise no_such_object(self.registry.named(NAMESPACES), namespace)
        if record.obj["metadata"].get("deletionTimestamp"):
            raise ApiError(
                403,
                "Forbidden",
                f'{resource.qualified} "{name}" is forbidden: unable to create new content in '
                f"namespace {namespace} because it is being terminated",
                causes=[{"reason": "NamespaceTerminating", "message": "", "field": ""}],
            )

    # ---- update

    def update(
        self,
        resource: ServedResource,
        namespace: str,
        name: str,
        given: Obj,
        options: WriteOptions,
        subresource: str = "",
    ) -> Record:
        """Replace an object, or its `status`. `given` may share parts with the stored one.

        Raises ApiError 400, 404, 409 (someone wrote first), 422.
        """
        record = self.get(resource, namespace, name)
        old = record.obj
        new = self._prepare(resource, namespace, given)
        self._compare(resource, record, new)
        new = self._merge_endpoints(resource, old, new, subresource)
        metadata = new["metadata"]
        self._check_finalizers(resource, name, metadata, old["metadata"])
        new = self._settle(resource, new, old, options)
        field_tracker.note(resource, old, new, options.writer, self.stamp)
        if resource.generation and subresource != "status" and _spec_changed(resource, new, old):
            metadata["generation"] = old["metadata"].get("generation", 0) + 1
        metadata["resourceVersion"] = str(record.rv)
        if new == old:
            return record  # nothing changed: no new resourceVersion, no event
        if options.dry_run:
            return Record.of(new, record.rv)
        if resource.qualified == CRDS and subresource != "status":
            new = self._install(new)
        if _may_go(new):
            self._remove(resource, record)
            return Record.of(new, record.rv)
        return self.store.commit(resource.qualified, "MODIFIED", new)

    def put(self, resource: ServedResource, namespace: str, obj: Obj) -> Record:
        """Store a version that the server itself made, without checks."""
        if _may_go(obj):
            return self._remove(resource, self.get(resource, namespace, obj["metadata"]["name"]))
        return self.store.commit(resource.qualified, "MODIFIED", obj)

    def _compare(self, resource: ServedResource, record: Record, new: Obj) -> None:
        metadata, name = new["metadata"], record.obj["metadata"]["name"]
        if metadata.get("name") != name:
            raise bad_request(
                f"the name of the object ({metadata.get('name', '')}) does not match the name on "
                f"the URL ({name})"
            )
        uid = record.obj["metadata"]["uid"]
        if metadata.get("uid") and metadata["uid"] != uid:
            raise conflict(
                resource,
                name,
                f"Precondition failed: UID in precondition: {metadata['uid']}, "
                f"UID in object meta: {uid}",
            )
        version = metadata.get("resourceVersion")
        if version and version != str(record.rv):
            if not str(version).isdigit():
                cause = Cause(
                    "metadata.resourceVersion", f'Invalid value: "{version}": not a number'
                )
                raise invalid(resource, name, [cause])
            raise modified(resource, name)
        if not version and not resource.blind_put:
            cause = Cause(
                "metadata.resourceVersion", "Invalid value: 0: must be specified for an update"
            )
            raise invalid(resource, name, [cause])

    def _merge_endpoints(
        self, resource: ServedResource, old: Obj, new: Obj, subresource: str
    ) -> Obj:
        """Merge by endpoint: the main one owns all but status.

        /status owns status, and the metadata of built-in kinds.
        """
        if subresource == "status":
            owner = old["metadata"] if resource.crd else new["metadata"]
            merged = {**old, "metadata": dict(owner)}
            if "status" in new:
                merged["status"] = new["status"]
            else:
                merged.pop("status", None)
        else:
            merged = dict(new)
            if resource.status and "status" in old:
                merged["status"] = old["status"]
            elif resource.status:
                merged.pop("status", None)
            merged["metadata"] = dict(new["metadata"])
        metadata = merged["metadata"]
        for key in OWN_METADATA:
            if key in old["metadata"]:
                metadata[key] = old["metadata"][key]
            else:
                metadata.pop(key, None)
        return merged

    def _check_finalizers(self, resource: ServedResource, name: str, new: Obj, old: Obj) -> None:
        if not old.get("deletionTimestamp"):
            return
        added = [f for f in new.get("finalizers") or () if f not in (old.get("finalizers") or ())]
        if added:
            cause = Cause(
                "metadata.finalizers",
                "Forbidden: no new finalizers can be added if the object is being deleted, found "
                f"new finalizers {added}",
                "FieldValueForbidden",
            )
            raise invalid(resource, name, [cause])

    # ---- what create and update share

    def _prepare(self, resource: ServedResource, namespace: str, given: Obj) -> Obj:
        if not isinstance(given, dict) or not isinstance(given.get("metadata", {}), dict | None):
            raise bad_request("the body is not a Kubernetes object")
        for key, wanted in (("apiVersion", resource.gv), ("kind", resource.kind)):
            value = given.get(key)
            if not value and resource.crd:
                raise bad_request(f"Object '{key}' is missing")
            if value and value != wanted:
                raise bad_request(
                    f"the {key} in the data ({value}) does not match the expected {key} ({wanted})"
                )
        metadata = {
            key: value
            for key, value in (given.get("metadata") or {}).items()
            if value is not None and value != {} and value != []
        }
        if resource.namespaced:
            if metadata.get("namespace", namespace) != namespace:
                raise bad_request(
                    "the namespace of the provided object does not match the namespace sent on "
                    "the request"
                )
            metadata["namespace"] = namespace
        else:
            metadata.pop("namespace", None)
        return {**given, "apiVersion": resource.gv, "kind": resource.kind, "metadata": metadata}

    def _settle(
        self, resource: ServedResource, obj: Obj, old: Obj | None, options: WriteOptions
    ) -> Obj:
        """Prune, fill defaults and check. Raises ApiError 400 (strict) or 422."""
        metadata = obj["metadata"]
        name = metadata.get("name", "")
        causes: list[Cause] = []
        if not name:
            causes.append(
                Cause(
                    "metadata.name",
                    "Required value: name or generateName is required",
                    "FieldValueRequired",
                )
            )
        elif old is None and (why := kinds.name_error(resource, name)):
            causes.append(Cause("metadata.name", why))
        causes += kinds.check_metadata(metadata, old["metadata"] if old else None)
        if resource.schema is not None:
            obj = self._fit_schema(resource, obj, options, causes)
        elif not resource.crd:
            obj = kinds.without_empty(resource, obj)
            causes += validation.check(resource, obj, old)
        if causes:
            raise invalid(resource, name, causes)
        obj = self._admission.mutate(resource, obj, old)
        self._admission.review(resource, obj, old)
        return obj

    def _fit_schema(
        self, resource: ServedResource, obj: Obj, options: WriteOptions, causes: list[Cause]
    ) -> Obj:
        schema = resource.schema
        assert schema is not None
        head = {key: obj[key] for key in ("apiVersion", "kind", "metadata")}
        body = {key: value for key, value in obj.items() if key not in head}
        dropped: list[str] = []
        body = schema.fill(schema.prune(body, "", dropped))
        options.unknown(resource, dropped)
        causes += schema.validate(body)
        return {**head, **body}

    # ---- delete

    def delete(
        self, resource: ServedResource, namespace: str, name: str, options: DeleteOptions
    ) -> tuple[Record, bool]:
        """Delete, or mark for deletion while finalizers, content or a grace period block it.

        Return the last version and whether it is gone. Raises ApiError 403, 404, 409.
        """
        record = self.get(resource, namespace, name)
        metadata = record.obj["metadata"]
        for what, expected, is_ in (
            ("UID", options.uid, metadata["uid"]),
            ("ResourceVersion", options.rv, str(record.rv)),
        ):
            if expected and expected != is_:
                raise conflict(
                    resource,
                    name,
                    f"Precondition failed: {what} in precondition: {expected}, "
                    f"{what} in object meta: {is_}",
                )
        if resource.qualified == NAMESPACES and name in PERMANENT_NAMESPACES[:2]:
            raise ApiError(
                403,
                "Forbidden",
                f'namespaces "{name}" is forbidden: this namespace may not be deleted',
            )
        if options.orphan and not options.dry_run:
            self._orphan(metadata["uid"])
        obj = _add_foreground(record.obj) if options.foreground else record.obj
        metadata = obj["metadata"]
        grace = self._grace(resource, obj, options.grace)
        waits = bool(metadata.get("finalizers")) or self._holds_content(resource, record.obj)
        if not waits and grace == 0:
            if options.dry_run:
                return record, True
            return self._remove(resource, record), True
        if metadata.get("deletionTimestamp"):
            remaining = metadata.get("deletionGracePeriodSeconds", 0)
            if options.grace is None or grace >= remaining:
                return record, False  # deletion is in progress; a second delete may only shorten it
        if options.dry_run:
            return record, False
        return self._mark(resource, obj, grace), False

    def _mark(self, resource: ServedResource, obj: Obj, grace: int) -> Record:
        metadata = dict(obj["metadata"])
        if not metadata.get("deletionTimestamp") and metadata.get("generation"):
            metadata["generation"] += 1  # controllers see deletion as a change of intent
        metadata["deletionTimestamp"] = timestamp(self.now() + timedelta(seconds=grace))
        metadata["deletionGracePeriodSeconds"] = grace
        marked = {**obj, "metadata": metadata}
        if resource.qualified == NAMESPACES:
            marked["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
        record = self.store.commit(resource.qualified, "MODIFIED", marked)
        if self._holds_content(resource, marked) or FOREGROUND in metadata.get("finalizers", ()):
            self.removed(resource, record)
        return record

    def _grace(self, resource: ServedResource, obj: Obj, requested: int | None) -> int:
        """Return the grace period in seconds; only a pod that a kubelet may run has one.

        Source: kubernetes `pkg/registry/core/pod/strategy.go`, CheckGracefulDelete.
        """
        if resource.qualified != "pods":
            return 0
        spec, phase = obj.get("spec") or {}, (obj.get("status") or {}).get("phase")
        if not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
            return 0
        grace = spec.get("terminationGracePeriodSeconds", 30) if requested is None else requested
        return grace if grace >= 0 else 1

    def _holds_content(self, resource: ServedResource, obj: Obj) -> bool:
        """Return whether a namespace or CRD has content, which must be removed first.

        The garbage collector removes it.
        """
        if resource.qualified == NAMESPACES:
            return bool((obj.get("spec") or {}).get("finalizers"))
        if resource.qualified == CRDS:
            collection = self.store.collection(obj["metadata"]["name"])
            return next(collection.records(), None) is not None
        return False

    def _orphan(self, uid: str) -> None:
        for qualified, key in self.store.dependents(uid):
            resource = self.registry.find(qualified)
            record = self.store.collection(qualified).get(key)
            if resource is not None and record is not None:
                self.put(resource, key[0], without_owners(record.obj, {uid}))

    def _remove(self, resource: ServedResource, stored: Record) -> Record:
        """Remove an object. The last event shows what was stored, not the write that removed it."""
        record = self.store.commit(resource.qualified, "DELETED", stored.obj)
        self.removed(resource, record)
        return record

    def finish(self, resource: ServedResource, record: Record) -> None:
        """Remove an object whose content is gone, unless other finalizers block it."""
        obj = record.obj
        if resource.qualified == NAMESPACES:
            obj = {**obj, "spec": {k: v for k, v in obj["spec"].items() if k != "finalizers"}}
        self.put(resource, "", obj)

    def delete_collection(
        self, resource: ServedResource, selection: Selection, options: DeleteOptions
    ) -> list[Record]:
        """Delete all selected objects. Return their last versions."""
        records = self.store.collection(resource.qualified).sorted(selection)
        return [self.delete(resource, *record.key, options)[0] for record in records]


def _add_foreground(obj: Obj) -> Obj:
    finalizers = obj["metadata"].get("finalizers") or []
    if obj["metadata"].get("deletionTimestamp") or FOREGROUND in finalizers:
        return obj
    return {**obj, "metadata": {**obj["metadata"], "finalizers": [*finalizers, FOREGROUND]}}


def without_owners(obj: Obj, uids: set[str]) -> Obj:
    """Return `obj` without the ownerReferences to `uids`."""
    metadata = dict(obj["metadata"])
    remaining = [
        owner for owner in metadata.get("ownerReferences") or () if owner["uid"] not in uids
    ]
    if remaining:
        metadata["ownerReferences"] = remaining
    else:
        metadata.pop("ownerReferences", None)
    return {**obj, "metadata": metadata}


def _spec_changed(resource: ServedResource, new: Obj, old: Obj) -> bool:
    outside = ("metadata", "status") if resource.status else ("metadata",)
    keys = (new.keys() | old.keys()) - set(outside)
    if any(new.get(key) != old.get(key) for key in keys):
        return True
    return resource.kind == "Deployment" and (
        new["metadata"].get("annotations") != old["metadata"].get("annotations")
    )


def _may_go(obj: Obj) -> bool:
    """Return whether an object is marked for deletion and nothing blocks it any more."""
    metadata = obj["metadata"]
    blockers = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
    if obj["kind"] == "Namespace":
        blockers = blockers or (obj.get("spec") or {}).get("finalizers")
    return bool(metadata.get("deletionTimestamp")) and not blockers
