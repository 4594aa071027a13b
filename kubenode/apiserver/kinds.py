"""What single built-in kinds do beyond the common rules: defaults, checks, who reads which name.

Only what KubeNode or the contract suite relies on; other invalid built-in objects are accepted here
and refused by a real server. Source: kubernetes `pkg/registry/*/strategy.go` and
`pkg/apis/core/validation`.
"""

import base64
import re
from collections.abc import Iterator
from typing import Any

from kubenode.apiserver.errors import Cause, Obj
from kubenode.apiserver.registry import Resource

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_DNS_LABEL = re.compile(_LABEL)
_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_QUALIFIED = re.compile(
    r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
)
_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_PATH_NAMED = frozenset({"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"})

POD_DEFAULTS: Obj = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "enableServiceLinks": True,
    "securityContext": {},
}
POD_MAY_CHANGE = frozenset(
    {
        "activeDeadlineSeconds",
        "containers",
        "initContainers",
        "nodeName",
        "schedulingGates",
        "terminationGracePeriodSeconds",
        "tolerations",
    }
)
"""Fields of a pod's spec in which an update may differ at all; see `_pod_update`."""

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def name_error(resource: Resource, name: str) -> str:
    """Why `name` is not a name of this kind, "" when it is."""
    if resource.kind in _PATH_NAMED:
        bad = name in (".", "..") or "/" in name or "%" in name
        return f'Invalid value: "{name}": may not contain "/" or "%"' if bad else ""
    if resource.kind == "Namespace":
        limit, pattern, rule = 63, _DNS_LABEL, "a lowercase RFC 1123 label"
    elif resource.kind == "Service":
        limit, pattern, rule = 63, _DNS_1035, "a DNS-1035 label"
    else:
        limit, pattern, rule = 253, _SUBDOMAIN, "a lowercase RFC 1123 subdomain"
    if len(name) > limit:
        return f'Invalid value: "{name}": must be no more than {limit} characters'
    return "" if pattern.fullmatch(name) else f'Invalid value: "{name}": must be {rule}'


def check_metadata(metadata: Obj, old: Obj | None) -> Iterator[Cause]:
    """Labels, annotations and finalizers; what did not change was checked when it was written."""
    labels = metadata.get("labels")
    if labels and (old is None or old.get("labels") is not labels):
        for key, value in labels.items():
            if not _is_qualified(key):
                yield Cause("metadata.labels", f'Invalid value: "{key}": not a qualified name')
            if not isinstance(value, str) or len(value) > 63 or not _VALUE.fullmatch(value):
                yield Cause("metadata.labels", f'Invalid value: "{value}": not a label value')
    annotations = metadata.get("annotations")
    if annotations and (old is None or old.get("annotations") is not annotations):
        for key, value in annotations.items():
            if not _is_qualified(key.lower()):
                yield Cause("metadata.annotations", f'Invalid value: "{key}": not a qualified name')
            if not isinstance(value, str):
                yield Cause("metadata.annotations", f"Invalid value: {value!r}: must be a string")
    for finalizer in metadata.get("finalizers") or ():
        if not _is_qualified(finalizer):
            yield Cause(
                "metadata.finalizers", f'Invalid value: "{finalizer}": not a qualified name'
            )


def _is_qualified(name: str) -> bool:
    prefix, slash, rest = name.rpartition("/")
    return bool(_QUALIFIED.fullmatch(name)) and len(rest) <= 63 and (not slash or len(prefix) < 254)


def without_nulls(value: Any) -> Any:
    """Typed kinds do not know null: an explicit null is an absent field."""
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
"""`omitempty` of k8s.io/api, where our programs or tests would see the difference."""


def without_empty(resource: Resource, obj: Obj) -> Obj:
    """`obj` without fields that a typed kind does not write when they are empty or false."""
    for path in OMITTED_WHEN_EMPTY.get(resource.kind, ()):
        parent = obj if len(path) == 1 else obj.get(path[0])
        name = path[-1]
        if not isinstance(parent, dict) or name not in parent or parent[name]:
            continue
        rest = {key: value for key, value in parent.items() if key != name}
        obj = rest if len(path) == 1 else {**obj, path[0]: rest}
    return obj


def on_create(resource: Resource, obj: Obj) -> Obj:
    """`obj` as its strategy prepares it: status dropped or set, defaults filled."""
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


def check(resource: Resource, obj: Obj, old: Obj | None) -> Iterator[Cause]:
    """What is wrong with a built-in object; `old` is None when it is created."""
    match resource.kind:
        case "Pod":
            if old is None or obj.get("spec") != old.get("spec"):
                yield from _pod(obj.get("spec") or {})
            if old is not None and obj.get("spec") != old.get("spec"):
                yield from _pod_update(obj.get("spec") or {}, old["spec"])
        case "Node":
            yield from _node(obj, old)
        case "PodDisruptionBudget":
            spec = obj.get("spec") or {}
            if "minAvailable" in spec and "maxUnavailable" in spec:
                yield Cause(
                    "spec", "Invalid value: minAvailable and maxUnavailable cannot be both set"
                )
        case "Lease":
            seconds = (obj.get("spec") or {}).get("leaseDurationSeconds")
            if seconds is not None and (not isinstance(seconds, int) or seconds <= 0):
                yield Cause(
                    "spec.leaseDurationSeconds", f"Invalid value: {seconds}: must be greater than 0"
                )
        case "Event":
            yield from _event(obj)
        case "ControllerRevision":
            yield from _controller_revision(obj, old)
        case _:
            pass


def _pod(spec: Obj) -> Iterator[Cause]:
    containers = spec.get("containers") or []
    if not containers:
        yield Cause("spec.containers", "Required value", "FieldValueRequired")
    for n, container in enumerate(containers):
        name = container.get("name", "")
        if not name:
            yield Cause(f"spec.containers[{n}].name", "Required value", "FieldValueRequired")
        elif not _DNS_LABEL.fullmatch(name):
            yield Cause(
                f"spec.containers[{n}].name",
                f'Invalid value: "{name}": must be a lowercase RFC 1123 label',
            )
        if not container.get("image"):
            yield Cause(f"spec.containers[{n}].image", "Required value", "FieldValueRequired")


def _pod_update(new: Obj, old: Obj) -> Iterator[Cause]:
    def frozen(spec: Obj) -> Obj:
        rest = {key: value for key, value in spec.items() if key not in POD_MAY_CHANGE}
        for key in ("containers", "initContainers"):
            rest[key] = [{**c, "image": ""} for c in spec.get(key) or ()]
        return rest

    kept = [
        toleration in (new.get("tolerations") or ()) for toleration in old.get("tolerations") or ()
    ]
    moved = new.get("nodeName") != old.get("nodeName")
    if frozen(new) != frozen(old) or moved or not all(kept):
        yield Cause(
            "spec",
            "Forbidden: pod updates may not change fields other than "
            "`spec.containers[*].image`,`spec.initContainers[*].image`,"
            "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
            "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
            "previously negative)",
            "FieldValueForbidden",
        )


def _node(obj: Obj, old: Obj | None) -> Iterator[Cause]:
    spec = obj.get("spec") or {}
    taints = spec.get("taints") or []
    if old is not None and (old.get("spec") or {}).get("taints") is taints:
        return
    seen = set()
    for n, taint in enumerate(taints):
        key, effect = taint.get("key", ""), taint.get("effect", "")
        if not _is_qualified(key):
            yield Cause(f"spec.taints[{n}].key", f'Invalid value: "{key}": not a qualified name')
        if effect not in EFFECTS:
            yield Cause(
                f"spec.taints[{n}].effect",
                f'Unsupported value: "{effect}": supported values: {", ".join(EFFECTS)}',
                "FieldValueNotSupported",
            )
        if (key, effect) in seen:
            yield Cause(f"spec.taints[{n}]", f'Duplicate value: "{key}"', "FieldValueDuplicate")
        seen.add((key, effect))


def _event(obj: Obj) -> Iterator[Cause]:
    """Events about cluster-scoped objects live in `default` (or kube-system)."""
    about = (obj.get("involvedObject") or {}).get("namespace", "")
    home = obj["metadata"].get("namespace", "")
    if home != about and (about or home not in ("default", "kube-system")):
        yield Cause(
            "involvedObject.namespace", f'Invalid value: "{about}": does not match event.namespace'
        )
    if obj.get("eventTime"):
        for field in ("reportingComponent", "reportingInstance", "action", "reason"):
            if not obj.get(field):
                shown = "reportingController" if field == "reportingComponent" else field
                yield Cause(shown, "Required value", "FieldValueRequired")


def _controller_revision(obj: Obj, old: Obj | None) -> Iterator[Cause]:
    """Source: kubernetes `pkg/apis/apps/validation`, ValidateControllerRevision."""
    if obj.get("data") is None:
        yield Cause("data", "Required value: data is mandatory", "FieldValueRequired")
    if not isinstance(revision := obj.get("revision", 0), int) or revision < 0:
        yield Cause("revision", f"Invalid value: {revision}: must be greater than or equal to 0")
    if old is not None and obj.get("data") != old.get("data"):
        yield Cause("data", "Invalid value: field is immutable")
