"""Server-side apply requests: what they may contain, and the resulting object."""

from typing import Any

from simulation.apiserver import client_side, field_tracker, kinds, managed_fields
from simulation.apiserver.bodies import decode
from simulation.apiserver.calls import TRUE, Call, write_options
from simulation.apiserver.errors import ApiError, Cause, Obj, bad_request
from simulation.apiserver.objects import Objects
from simulation.apiserver.store import Record


def apply(objects: Objects, call: Call) -> tuple[Record, bool, list[str]]:
    """Apply the body. Return the object, whether it is new, and warnings. Raises ApiError."""
    options = write_options(call)
    options.patch = True
    _check_query(call)
    config = _config(call)
    resource, now = call.resource, objects.stamp()
    record = objects.store.collection(resource.qualified).get((call.namespace, call.name))
    if record is None and call.subresource:
        objects.get(resource, call.namespace, call.name)
    who = managed_fields.Manager(
        managed_fields.APPLY, options.writer.name, resource.gv, call.subresource
    )
    config = _of_endpoint(call, config)
    if record is None:
        made, entries = managed_fields.applied(resource, {}, config, {}, who, None, now)
        options.writer.applied = managed_fields.encode(entries)
        made = {**made, "apiVersion": resource.gv, "kind": resource.kind}
        return objects.create(resource, call.namespace, made, options), True, options.warnings
    live = record.obj
    entries = field_tracker.entries_of(resource, live, now)
    forced = call.query.get("force") in TRUE
    free = None if forced else client_side.own(resource, live, who.name)
    merged, after = managed_fields.applied(resource, live, config, entries, who, free, now)
    merged = client_side.renewed(merged, config, who.name)
    options.writer.applied = managed_fields.encode(after)
    merged = merged if resource.crd else kinds.without_nulls(merged)
    updated = objects.update(resource, call.namespace, call.name, merged, options, call.subresource)
    return updated, False, options.warnings


def _check_query(call: Call) -> None:
    if not call.query.get("fieldManager"):
        cause = Cause(
            "fieldManager", "Required value: is required for apply patch", "FieldValueRequired"
        )
        raise ApiError(
            422,
            "Invalid",
            f'PatchOptions.meta.k8s.io "" is invalid: {cause.field}: {cause.message}',
            group="meta.k8s.io",
            kind="PatchOptions",
            causes=[cause.to_dict()],
        )


def _config(call: Call) -> Obj:
    """Return the configuration in the body, which must match the URL. Raises ApiError 400."""
    config: Any = decode(call)
    if not isinstance(config, dict) or not isinstance(config.get("metadata") or {}, dict):
        raise bad_request("the body is not a Kubernetes object")
    kind = f"{config.get('apiVersion', '')}, Kind={config.get('kind', '')}"
    if kind != f"{call.resource.gv}, Kind={call.resource.kind}":
        raise bad_request(f"invalid object type: {kind}")
    metadata = dict(config.get("metadata") or {})
    name = metadata.get("name", "")
    if not name:
        raise bad_request(
            f"the name of the object ({call.name} based on URL) was undeterminable: name must be "
            "provided"
        )
    if name != call.name:
        raise bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({call.name})"
        )
    if "managedFields" in metadata:
        raise bad_request("metadata.managedFields must be nil")
    return {**config, "metadata": metadata}


def _of_endpoint(call: Call, config: Obj) -> Obj:
    """Return what the endpoint may write: the main one all but status, /status little else."""
    if call.subresource:
        allowed_keys = ("apiVersion", "kind", "metadata", "status")
        config = {key: value for key, value in config.items() if key in allowed_keys}
        if call.resource.crd:
            own = {"name", "namespace", "uid", "resourceVersion"}
            metadata = {k: v for k, v in config["metadata"].items() if k in own}
            config = {**config, "metadata": metadata}
    elif call.resource.status:
        config = {key: value for key, value in config.items() if key != "status"}
    return config
