"""Executes the verbs on the objects: from a call to a response."""

from typing import Any

import msgspec

from simulation.apiserver import eviction, patches, type_decoder
from simulation.apiserver.answers import SUCCESS, ServerResponse
from simulation.apiserver.apply import apply
from simulation.apiserver.bodies import check_media, decode
from simulation.apiserver.calls import (
    APPLY,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    Call,
    delete_options,
    write_options,
)
from simulation.apiserver.errors import (
    ApiError,
    Cause,
    Obj,
    bad_request,
    invalid,
    unreadable,
)
from simulation.apiserver.objects import DeleteOptions, Objects, WriteOptions
from simulation.apiserver.reads import Reads
from simulation.apiserver.scale import Scaling
from simulation.apiserver.selectors import select
from simulation.apiserver.store import Record, encode


class Api:
    """Executes every call except watches."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._reads = Reads(objects)

    def answer(self, call: Call) -> ServerResponse:
        """Execute a call. Raises ApiError."""
        match call.verb, call.subresource:
            case "get", "" | "status":
                return self._reads.get(call)
            case "get" | "update" | "patch", "scale" if call.name and call.resource.scale:
                return self._scale(call, Scaling(call.resource, call.resource.scale))
            case "list", "":
                return self._reads.list(call)
            case "create", "" if not call.name:
                return self._create(call)
            case "create", "eviction" if call.name:
                return self._evict(call)
            case "create", "binding" if call.name:
                return self._bind(call)
            case "update", "" | "status" if call.name:
                return self._update(call)
            case "patch", "" | "status" if call.name:
                return self._patch(call)
            case "delete", "":
                return self._delete(call)
            case "deletecollection", "":
                return self._delete_collection(call)
            case _:
                raise call.refuse()

    # ---- writes

    def _create(self, call: Call) -> ServerResponse:
        check_media(call)
        options = write_options(call)
        data = _typed(call, decode(call), None, options)
        record = self._objects.create(call.resource, call.namespace, data, options)
        return ServerResponse(record.raw, 201, options.warnings)

    def _update(self, call: Call) -> ServerResponse:
        check_media(call)
        options = write_options(call)
        data = _typed(call, decode(call), None, options)
        resource = call.resource
        collection = self._objects.store.collection(resource.qualified)
        if resource.put_creates and collection.get((call.namespace, call.name)) is None:
            record = self._objects.create(resource, call.namespace, _unversioned(data), options)
            return ServerResponse(record.raw, 201, options.warnings)
        return self._updated(call, data, options)

    def _updated(self, call: Call, data: Any, options: WriteOptions) -> ServerResponse:
        record = self._objects.update(
            call.resource, call.namespace, call.name, data, options, call.subresource
        )
        return ServerResponse(record.raw, 200, options.warnings)

    def _patch(self, call: Call) -> ServerResponse:
        if call.content_type == APPLY:
            record, is_new, warnings = apply(self._objects, call)
            return ServerResponse(record.raw, 201 if is_new else 200, warnings)
        _check_patch(call)
        options = write_options(call)
        options.patch = True
        old = self._objects.get(call.resource, call.namespace, call.name).obj
        new = _patched(call, old)
        for key in ("apiVersion", "kind"):
            if new.get(key) != old[key]:
                cause = Cause(key, f"Invalid value: {new.get(key)!r}: a patch cannot change it")
                raise invalid(call.resource, call.name, [cause])
        uid = (new.get("metadata") or {}).get("uid")
        if uid and uid != old["metadata"]["uid"]:
            cause = Cause("metadata.uid", f'Invalid value: "{uid}": field is immutable')
            raise invalid(call.resource, call.name, [cause])
        return self._updated(call, _typed(call, new, old, options), options)

    def _delete(self, call: Call) -> ServerResponse:
        options = _deletion(call)
        record, gone = self._objects.delete(call.resource, call.namespace, call.name, options)
        if not gone or call.resource.qualified == "pods":
            return ServerResponse(record.raw)
        details = {
            "name": call.name,
            "group": call.resource.group,
            "kind": call.resource.plural,
            "uid": record.obj["metadata"]["uid"],
        }
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        return ServerResponse(encode({**status, "details": details}))

    def _delete_collection(self, call: Call) -> ServerResponse:
        selection = select(call.resource, call.namespace, "", call.query)
        records = self._objects.delete_collection(call.resource, selection, _deletion(call))
        head = {"kind": call.resource.list_kind, "apiVersion": call.resource.gv}
        metadata = {"resourceVersion": str(self._objects.store.rv)}
        items = [
            msgspec.Raw(record.raw if call.resource.crd else record.item) for record in records
        ]
        return ServerResponse(encode({**head, "metadata": metadata, "items": items}))

    # ---- subresource scale

    def _scale(self, call: Call, scaling: Scaling) -> ServerResponse:
        old = self._objects.get(call.resource, call.namespace, call.name).obj
        if call.verb == "get":
            return ServerResponse(encode(scaling.scale(old)))
        options = write_options(call)
        if call.verb == "update":
            check_media(call)
            wanted = decode(call)
        else:
            _check_patch(call)
            wanted = _patched(call, scaling.scale(old))
        record = self._objects.update(
            call.resource, call.namespace, call.name, scaling.scaled(old, wanted), options
        )
        return ServerResponse(encode(scaling.scale(record.obj)), 200, options.warnings)

    # ---- subresources of pods

    def _evict(self, call: Call) -> ServerResponse:
        check_media(call)
        pod = self._objects.get(call.resource, call.namespace, call.name)
        body = decode(call)
        if (body.get("metadata") or {}).get("name", call.name) != call.name:
            raise bad_request("name in URL does not match name in Eviction object")
        options = delete_options(call, body.get("deleteOptions") or {})
        eviction.evict(self._objects, call.resource, pod, options)
        return ServerResponse(SUCCESS, 201)

    def _bind(self, call: Call) -> ServerResponse:
        check_media(call)
        pod: Record = self._objects.get(call.resource, call.namespace, call.name)
        eviction.bind(self._objects, call.resource, pod, decode(call))
        return ServerResponse(SUCCESS, 201)


def _unversioned(data: Any) -> Any:
    """Return the body without resourceVersion, which a PUT that creates an object ignores."""
    metadata = data.get("metadata") if isinstance(data, dict) else None
    if not isinstance(metadata, dict):
        return data
    rest = {key: value for key, value in metadata.items() if key != "resourceVersion"}
    return {**data, "metadata": rest}


def _typed(call: Call, data: Any, old: Obj | None, options: WriteOptions) -> Any:
    """Return the body without unknown fields of a typed kind. Raises ApiError 400 or 422."""
    if not isinstance(data, dict):
        return data
    unknown: list[str] = []
    try:
        data = type_decoder.fit(type_decoder.shape_of(call.resource), data, old, unknown)
    except type_decoder.Mistyped as error:
        raise unreadable(call.resource, str(error), options.patch) from error
    options.unknown(call.resource, unknown)
    return data


def _deletion(call: Call) -> DeleteOptions:
    return delete_options(call, decode(call) if call.body else {})


def _check_patch(call: Call) -> None:
    """Raise ApiError 415 for an unsupported patch type."""
    known = (JSON_PATCH, MERGE) if call.resource.crd else (JSON_PATCH, MERGE, STRATEGIC)
    if call.content_type not in known:
        raise ApiError(
            415,
            "UnsupportedMediaType",
            f"the body of the request was in an unknown format ({call.content_type or 'none'}) "
            f"- accepted media types include: {', '.join(known)}",
        )


def _patched(call: Call, old: Obj) -> Any:
    """Return `old` with the patch of the body applied. Raises ApiError."""
    patch = decode(call, typed=False)
    if call.content_type == JSON_PATCH:
        return patches.json_patch(old, patch)
    if not isinstance(patch, dict):
        raise bad_request("a merge patch is an object")
    if call.content_type == MERGE:
        return patches.merge(old, patch)
    return patches.strategic(old, patch, call.resource.kind)
