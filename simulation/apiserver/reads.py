"""Reads one object, or a list: current, at a version, or of the snapshot of its first page."""

import base64

import msgspec

from simulation.apiserver.answers import ServerResponse
from simulation.apiserver.calls import Call
from simulation.apiserver.errors import Obj, bad_request, expired, too_large
from simulation.apiserver.forms import Form, Partial, Rendering, choose_form
from simulation.apiserver.objects import Objects
from simulation.apiserver.registry import ServedResource
from simulation.apiserver.selectors import select
from simulation.apiserver.store import Collection, Record, encode
from simulation.apiserver.tables import Tabular

_Token = msgspec.json.Decoder(tuple[int, str, str])


def rendering(resource: ServedResource, form: Form) -> Rendering | None:
    """Return the renderer of a form; None to send objects as stored."""
    if form is Form.PLAIN:
        return None
    return Partial() if form is Form.PARTIAL else Tabular(resource, form)


def form_of(call: Call) -> Form:
    """Return the form that a call requests. Raises ApiError 406."""
    return choose_form(call.accept, call.query.get("includeObject", ""))


class Reads:
    """Executes get and list."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def get(self, call: Call) -> ServerResponse:
        record = self._objects.get(call.resource, call.namespace, call.name)
        form = rendering(call.resource, form_of(call))
        return ServerResponse(
            record.raw if form is None else encode(form.render_object(record.obj))
        )

    def list(self, call: Call) -> ServerResponse:
        query, resource = call.query, call.resource
        form = rendering(call.resource, form_of(call))
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
            token = base64.urlsafe_b64encode(encode((rv, *last)))
            metadata["continue"] = token.decode().rstrip("=")
            if not (query.get("labelSelector") or query.get("fieldSelector")):
                metadata["remainingItemCount"] = len(records) - limit
            records = records[:limit]
        if form is not None:
            return ServerResponse(encode(form.many([record.obj for record in records], metadata)))
        return ServerResponse(_whole(resource, records, metadata))

    def _moment(self, call: Call, collection: Collection) -> tuple[int, tuple[str, str] | None]:
        """Return the resourceVersion to list at, and the last key of the previous page.

        The key is None for the first page.
        """
        current = self._objects.store.rv
        if token := call.query.get("continue"):
            try:
                rv, namespace, name = _Token.decode(
                    base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
                )
            except (ValueError, msgspec.DecodeError) as error:
                raise bad_request("continue key is not valid") from error
            if rv < collection.floor:
                raise expired(
                    "The provided continue parameter is too old to display a consistent list "
                    "result. You can start a new list without the continue parameter."
                )
            return rv, (namespace, name)
        requested = call.query.get("resourceVersion") or "0"
        if not requested.isdigit():
            raise bad_request(f"resourceVersion: Invalid value: {requested!r}: must be a number")
        if int(requested) > current:
            raise too_large(int(requested), current)
        if call.query.get("resourceVersionMatch") == "Exact":
            if int(requested) < collection.floor:
                raise expired(f"The resourceVersion for the provided list is too old: {requested}")
            return int(requested), None
        return current, None


def _whole(resource: ServedResource, records: list[Record], metadata: Obj) -> bytes:
    """Join a list from the stored JSON of its objects."""
    head = b'{"kind":"%s","apiVersion":"%s","metadata":%s,"items":[' % (
        resource.list_kind.encode(),
        resource.gv.encode(),
        encode(metadata),
    )
    typed = not resource.crd  # items of built-in kinds omit apiVersion and kind
    items = [record.item if typed else record.raw for record in records]
    return head + b",".join(items) + b"]}"


def _limit(text: str) -> int:
    if text and not text.isdigit():
        raise bad_request(f"limit: Invalid value: {text!r}: must be a number")
    return int(text or 0)
