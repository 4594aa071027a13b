"""Rules of single built-in kinds beyond the common ones: defaults, names, metadata.

Source: kubernetes `pkg/registry/*/strategy.go`, apimachinery `pkg/api/validation/objectmeta.go`.
"""

import base64
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from simulation.apiserver.checks import DNS_LABEL, SUBDOMAIN, wrong
from simulation.apiserver.errors import Cause, Obj
from simulation.apiserver.registry import ServedResource

_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_QUALIFIED = re.compile(
    r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
)
_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
STANDARD = frozenset({"foregroundDeletion", "kubernetes", "orphan"})
"""Finalizers without a domain."""
LARGEST_ANNOTATIONS = 262_144
_PATH_NAMED = frozenset({"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"})

POD_DEFAULTS: Obj = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "enableServiceLinks": True,
    "securityContext": {},
}


def name_error(resource: ServedResource, name: str) -> str:
    """Return why `name` is invalid for this kind, "" if it is valid."""
    if resource.kind in _PATH_NAMED:
        bad = name in (".", "..") or "/" in name or "%" in name
        return f'Invalid value: "{name}": may not contain "/" or "%"' if bad else ""
    if resource.kind == "Namespace":
        limit, pattern, rule = 63, DNS_LABEL, "a lowercase RFC 1123 label"
    elif resource.kind == "Service":
        limit, pattern, rule = 63, _DNS_1035, "a DNS-1035 label"
    else:
        limit, pattern, rule = 253, SUBDOMAIN, "a lowercase RFC 1123 subdomain"
    if len(name) > limit:
        return f'Invalid value: "{name}": must be no more than {limit} characters'
    return "" if pattern.fullmatch(name) else f'Invalid value: "{name}": must be {rule}'


def check_metadata(metadata: Obj, old: Obj | None) -> Iterator[Cause]:
    """Check labels, annotations, finalizers and owners.

    Unchanged labels and annotations were checked before.
    """
    labels = metadata.get("labels")
    if labels and (old is None or old.get("labels") is not labels):
        for key, value in labels.items():
            if not is_qualified(key):
                yield Cause("metadata.labels", f'Invalid value: "{key}": not a qualified name')
            if not isinstance(value, str) or not _is_label_value(value):
                yield Cause("metadata.labels", f'Invalid value: "{value}": not a label value')
    annotations = metadata.get("annotations")
    if annotations and (old is None or old.get("annotations") is not annotations):
        for key, value in annotations.items():
            if not is_qualified(key.lower()):
                yield Cause("metadata.annotations", f'Invalid value: "{key}": not a qualified name')
            if not isinstance(value, str):
                yield Cause("metadata.annotations", f"Invalid value: {value!r}: must be a string")
    size = 0
    if annotations and (old is None or old.get("annotations") is not annotations):
        size = sum(len(key) + len(str(value)) for key, value in annotations.items())
    if size > LARGEST_ANNOTATIONS:
        why = f"Too long: may not be more than {LARGEST_ANNOTATIONS} bytes"
        yield Cause("metadata.annotations", why, "FieldValueTooLong")
    for n, finalizer in enumerate(metadata.get("finalizers") or ()):
        if not is_qualified(finalizer) or ("/" not in finalizer and finalizer not in STANDARD):
            why = "name is neither a standard finalizer name nor is it fully qualified"
            yield wrong(f"metadata.finalizers[{n}]", finalizer, why)
    if owners := metadata.get("ownerReferences"):
        yield from _owners(owners)


def _owners(owners: list[Obj]) -> Iterator[Cause]:
    for n, owner in enumerate(owners):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                yield wrong(f"metadata.ownerReferences[{n}].{field}", "", "must not be empty")
    if sum(bool(owner.get("controller")) for owner in owners) > 1:
        why = "Only one reference can have Controller set to true"
        yield wrong("metadata.ownerReferences", [owner.get("name") for owner in owners], why)


@lru_cache(maxsize=8192)
def _is_label_value(value: str) -> bool:
    return len(value) <= 63 and bool(_VALUE.fullmatch(value))


@lru_cache(maxsize=8192)
def is_qualified(name: str) -> bool:
    prefix, slash, rest = name.rpartition("/")
    return bool(_QUALIFIED.fullmatch(name)) and len(rest) <= 63 and (not slash or len(prefix) < 254)


def without_nulls(value: Any) -> Any:
    """Drop explicit nulls, which mean absent fields in typed kinds."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


OMITTED_WHEN_EMPTY = {
    "ConfigMap": (("data",), ("binaryData",)),
    "Secret": (("data",),),
    "Node": (("spec", "taints"), ("spec", "unschedulable")),
}
"""Fields with `omitempty` in k8s.io/api that our programs or tests would notice."""


def without_empty(resource: ServedResource, obj: Obj) -> Obj:
    """Return `obj` without fields that a typed kind omits when they are empty or false."""
    for path in OMITTED_WHEN_EMPTY.get(resource.kind, ()):
        parent = obj if len(path) == 1 else obj.get(path[0])
        name = path[-1]
        if not isinstance(parent, dict) or name not in parent or parent[name]:
            continue
        rest = {key: value for key, value in parent.items() if key != name}
        obj = rest if len(path) == 1 else {**obj, path[0]: rest}
    return obj


def on_create(resource: ServedResource, obj: Obj) -> Obj:
    """Return `obj` as its strategy prepares it: status dropped or set, defaults filled."""
    if resource.status and resource.kind != "Node":
        obj = {key: value for key, value in obj.items() if key != "status"}
    match resource.kind:
        case "Namespace":
            return {**obj, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
        case "Pod":
            spec = {**POD_DEFAULTS, **(obj.get("spec") or {})}
            return {**obj, "spec": spec, "status": {"phase": "Pending", "qosClass": _qos(spec)}}
        case "Secret":
            data = dict(obj.get("data") or {})
            for key, value in (obj.get("stringData") or {}).items():
                data[key] = base64.b64encode(value.encode()).decode()
            rest = {key: value for key, value in obj.items() if key not in ("stringData", "data")}
            return {"type": "Opaque", **rest, **({"data": data} if data else {})}
        case "PodDisruptionBudget":
            zero = ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods")
            return {**obj, "status": dict.fromkeys(zero, 0)}
        case "Deployment" | "StatefulSet" | "ReplicaSet":
            spec = {"replicas": 1, **(obj.get("spec") or {})}
            return {**obj, "spec": spec, "status": {}}
        case _:
            return obj


def _qos(spec: Obj) -> str:
    """Source: kubernetes `pkg/apis/core/v1/helper/qos`."""
    parts = [c.get("resources") or {} for c in spec.get("containers") or () if isinstance(c, dict)]
    if not any(part.get("requests") or part.get("limits") for part in parts):
        return "BestEffort"
    guaranteed = all(
        {"cpu", "memory"} <= (part.get("limits") or {}).keys()
        and (part.get("requests") or part["limits"]) == part["limits"]
        for part in parts
    )
    return "Guaranteed" if guaranteed else "Burstable"
