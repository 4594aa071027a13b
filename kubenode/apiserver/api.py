"""The verbs: from a call to an answer, over the objects."""

import base64
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kubenode.apiserver import eviction, patching
from kubenode.apiserver.calls import (
    APPLY,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    Call,
    check_json,
    decode,
    delete_options,
    write_options,
)
from kubenode.apiserver.errors import (
    ApiError,
    Cause,
    Obj,
    bad_request,
    expired,
    invalid,
    too_large,
    unsupported,
)
from kubenode.apiserver.objects import Objects, WriteOptions
from kubenode.apiserver.scale import Scaling
from kubenode.apiserver.selectors import select
from kubenode.apiserver.store import Collection, Record, encode
from kubenode.apiserver.tables import Form, Tabular, asked_form


@dataclass(frozen=True, slots=True)
class Answer:
    """JSON, a status code, and warnings for the person behind the client."""

    body: bytes
    code: int = 200
    warnings: list[str] = field(default_factory=list)


SUCCESS = encode({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})
_Token = msgspec.json.Decoder(tuple[int, str, str])


class Api:
    """Answers every call but watches."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def answer(self, call: Call) -> Answer:
        """Raises ApiError."""
        match call.verb, call.subresource:
            case "get", "" | "status":
                return self._get(call)
            case "get" | "update" | "patch", "scale" if call.name and call.resource.scale:
                return self._scale(call, Scaling(call.resource, call.resource.scale))
            case "list", "":
                return self._list(call)
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

    # ---- reads

    def _get(self, call: Call) -> Answer:
        record = self._objects.get(call.resource, call.namespace, call.name)
        form = asked_form(call.accept, call.query.get("includeObject", ""))
        if form is Form.PLAIN:
            return Answer(record.raw)
        metadata = {"resourceVersion": str(record.rv)}
        return Answer(encode(Tabular(call.resource, form).rows([record.obj], metadata)))

    def _list(self, call: Call) -> Answer:
        query, resource = call.query, call.resource
        form = asked_form(call.accept, query.get("includeObject", ""))
        selection = select(resource, call.namespace, "", query)
        collection = self._objects.store.collection(resource.qualified)
        limit = _limit(query.get("limit", ""))
        rv, after = self._moment(call, collection)
        if rv == self._objects.store.rv:
            records = collection.sorted(selection)
        else:
            records = collection.sorted_at(selection, rv)
        if after is not None:
            records = [record for record in records if record.key > after]
        metadata: Obj = {"resourceVersion": str(rv)}
        if limit and len(records) > limit:
            last = records[limit - 1].key
            metadata["continue"] = base64.urlsafe_b64encode(encode((rv, *last))).decode()
            if not (query.get("labelSelector") or query.get("fieldSelector")):
                metadata["remainingItemCount"] = len(records) - limit
            records = records[:limit]
        if form is not Form.PLAIN:
            rows = Tabular(resource, form).rows([record.obj for record in records], metadata)
            return Answer(encode(rows))
        head = b'{"kind":"%s","apiVersion":"%s","metadata":%s,"items":[' % (
            resource.list_kind.encode(),
            resource.gv.encode(),
            encode(metadata),
        )
        whole = bool(resource.crd)  # items of built-in kinds do not repeat what they are
        items = [record.raw if whole else record.item for record in records]
        return Answer(head + b",".join(items) + b"]}")

    def _moment(self, call: Call, collection: Collection) -> tuple[int, tuple[str, str] | None]:
        """The resourceVersion to list at, and the key that the page before ended with."""
        current = self._objects.store.rv
        if token := call.query.get("continue"):
            try:
                rv, namespace, name = _Token.decode(base64.urlsafe_b64decode(token))
            except (ValueError, msgspec.DecodeError) as error:
                raise bad_request("continue key is not valid") from error
            if rv < collection.floor:
                raise expired(
                    "The provided continue parameter is too old to display a consistent list "
                    "result. You can start a new list without the continue parameter."
                )
            return rv, (namespace, name)
        asked = call.query.get("resourceVersion") or "0"
        if not asked.isdigit():
            raise bad_request(f"resourceVersion: Invalid value: {asked!r}: must be a number")
        if int(asked) > current:
            raise too_large(int(asked), current)
        if call.query.get("resourceVersionMatch") == "Exact":
            if int(asked) < collection.floor:
                raise expired(f"The resourceVersion for the provided list is too old: {asked}")
            return int(asked), None
        return current, None

    # ---- writes

    def _create(self, call: Call) -> Answer:
        check_json(call)
        options = write_options(call)
        record = self._objects.create(call.resource, call.namespace, decode(call), options)
        return Answer(record.raw, 201, options.warnings)

    def _update(self, call: Call) -> Answer:
        check_json(call)
        options, data = write_options(call), decode(call)
        resource = call.resource
        collection = self._objects.store.collection(resource.qualified)
        if resource.put_creates and collection.get((call.namespace, call.name)) is None:
            record = self._objects.create(resource, call.namespace, _unversioned(data), options)
            return Answer(record.raw, 201, options.warnings)
        return self._updated(call, data, options)

    def _updated(self, call: Call, data: Any, options: WriteOptions) -> Answer:
        record = self._objects.update(
            call.resource, call.namespace, call.name, data, options, call.subresource
        )
        return Answer(record.raw, 200, options.warnings)

    def _patch(self, call: Call) -> Answer:
        _check_patch(call)
        options = write_options(call)
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
        return self._updated(call, new, options)

    def _delete(self, call: Call) -> Answer:
        options = delete_options(call)
        record, gone = self._objects.delete(call.resource, call.namespace, call.name, options)
        if not gone or call.resource.qualified == "pods":
            return Answer(record.raw)
        details = {
            "name": call.name,
            "group": call.resource.group,
            "kind": call.resource.plural,
            "uid": record.obj["metadata"]["uid"],
        }
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        return Answer(encode({**status, "details": details}))

    def _delete_collection(self, call: Call) -> Answer:
        selection = select(call.resource, call.namespace, "", call.query)
        records = self._objects.delete_collection(call.resource, selection, delete_options(call))
        head = {"kind": call.resource.list_kind, "apiVersion": call.resource.gv}
        metadata = {"resourceVersion": str(self._objects.store.rv)}
        items = [
            msgspec.Raw(record.raw if call.resource.crd else record.item) for record in records
        ]
        return Answer(encode({**head, "metadata": metadata, "items": items}))

    # ---- subresource scale of CRDs

    def _scale(self, call: Call, scaling: Scaling) -> Answer:
        old = self._objects.get(call.resource, call.namespace, call.name).obj
        if call.verb == "get":
            return Answer(encode(scaling.scale(old)))
        options = write_options(call)
        if call.verb == "update":
            check_json(call)
            wanted = decode(call)
        else:
            _check_patch(call)
            wanted = _patched(call, scaling.scale(old))
        record = self._objects.update(
            call.resource, call.namespace, call.name, scaling.scaled(old, wanted), options
        )
        return Answer(encode(scaling.scale(record.obj)), 200, options.warnings)

    # ---- subresources of pods

    def _evict(self, call: Call) -> Answer:
        check_json(call)
        pod = self._objects.get(call.resource, call.namespace, call.name)
        body = decode(call)
        if (body.get("metadata") or {}).get("name", call.name) != call.name:
            raise bad_request("name in URL does not match name in Eviction object")
        options = delete_options(call, body.get("deleteOptions") or {})
        eviction.evict(self._objects, call.resource, pod, options)
        return Answer(SUCCESS, 201)

    def _bind(self, call: Call) -> Answer:
        check_json(call)
        pod: Record = self._objects.get(call.resource, call.namespace, call.name)
        eviction.bind(self._objects, call.resource, pod, decode(call))
        return Answer(SUCCESS, 201)


def _unversioned(data: Any) -> Any:
    """A PUT that creates does not mind the resourceVersion of what is gone; a POST does."""
    metadata = data.get("metadata") if isinstance(data, dict) else None
    if not isinstance(metadata, dict):
        return data
    rest = {key: value for key, value in metadata.items() if key != "resourceVersion"}
    return {**data, "metadata": rest}


def _limit(text: str) -> int:
    if text and not text.isdigit():
        raise bad_request(f"limit: Invalid value: {text!r}: must be a number")
    return int(text or 0)


def _check_patch(call: Call) -> None:
    """Raises ApiError 415 for a form of patch that is not taken."""
    if call.content_type in APPLY:
        raise unsupported(
            415, "server-side apply", "use a merge patch, or kubectl apply without --server-side"
        )
    known = (JSON_PATCH, MERGE) if call.resource.crd else (JSON_PATCH, MERGE, STRATEGIC)
    if call.content_type not in known:
        raise ApiError(
            415,
            "UnsupportedMediaType",
            f"the body of the request was in an unknown format ({call.content_type or 'none'}) "
            f"- accepted media types include: {', '.join(known)}",
        )


def _patched(call: Call, old: Obj) -> Any:
    """`old` with the body's patch applied. Raises ApiError."""
    patch = decode(call, typed=False)
    if call.content_type == JSON_PATCH:
        return patching.json_patch(old, patch)
    if not isinstance(patch, dict):
        raise bad_request("a merge patch is an object")
    if call.content_type == MERGE:
        return patching.merge(old, patch)
    return patching.strategic(old, patch, call.resource.kind)
