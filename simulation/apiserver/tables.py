"""Tables, which the server makes for `kubectl get`.

Columns of CRDs come from `additionalPrinterColumns`. Those of built-in kinds are defined here, with
the names of a real server. Source: kubernetes `pkg/printers/internalversion/printers.go`.
"""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from simulation.apiserver.errors import Obj
from simulation.apiserver.forms import Form, partial
from simulation.apiserver.registry import Column, ServedResource
from simulation.apiserver.selectors import dig

Cell = str | int | bool | None
Read = Callable[[Obj], Cell]


def duration(seconds: float) -> str:
    """Format a duration as apimachinery's `duration.HumanDuration` does."""
    s = int(seconds)
    if s < 0:
        return "<invalid>" if s < -1 else "0s"
    if s < 120:
        return f"{s}s"
    m, s = divmod(s, 60)
    if m < 10:
        return f"{m}m{s}s" if s else f"{m}m"
    if m < 180:
        return f"{m}m"
    h, m = divmod(m, 60)
    if h < 8:
        return f"{h}h{m}m" if m else f"{h}h"
    if h < 48:
        return f"{h}h"
    d, h = divmod(h, 24)
    if d < 8:
        return f"{d}d{h}h" if h else f"{d}d"
    return f"{d}d" if d < 730 else f"{d // 365}y"


def age(stamp: Any) -> str:
    try:
        then = datetime.fromisoformat(stamp)
    except (TypeError, ValueError):
        return "<unknown>"
    now = datetime.now(UTC)  # noqa: TID251  ages are for people, nothing is decided by them
    return duration((now - then).total_seconds())


def at(path: str) -> Read:
    keys = tuple(path.split("."))
    return lambda obj: dig(obj, keys)


def _or(path: str, default: str) -> Read:
    read = at(path)
    return lambda obj: default if (value := read(obj)) is None else value


def _since(path: str) -> Read:
    read = at(path)
    return lambda obj: age(read(obj))


def _node_status(obj: Obj) -> str:
    conditions = {c.get("type"): c.get("status") for c in dig(obj, ("status", "conditions")) or ()}
    ready = {"True": "Ready", "False": "NotReady"}.get(str(conditions.get("Ready")), "Unknown")
    if (obj.get("spec") or {}).get("unschedulable"):
        return f"{ready},SchedulingDisabled"
    return ready


def _node_roles(obj: Obj) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = obj["metadata"].get("labels") or {}
    return ",".join(sorted(k.removeprefix(prefix) for k in labels if k.startswith(prefix))) or (
        "<none>"
    )


def _pod_ready(obj: Obj) -> str:
    ready = sum(bool(c.get("ready")) for c in dig(obj, ("status", "containerStatuses")) or ())
    return f"{ready}/{len(dig(obj, ('spec', 'containers')) or ())}"


def _pod_status(obj: Obj) -> str:
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    status = obj.get("status") or {}
    return status.get("reason") or status.get("phase") or ""


def _restarts(obj: Obj) -> int:
    return sum(c.get("restartCount", 0) for c in dig(obj, ("status", "containerStatuses")) or ())


def _ready_of(want: str) -> Read:
    wanted = at(want)
    ready = at("status.readyReplicas")
    return lambda obj: f"{ready(obj) or 0}/{wanted(obj) or 0}"


def _count(path: str) -> Read:
    read = at(path)
    return lambda obj: read(obj) or 0


def _keys(field: str) -> Read:
    return lambda obj: len(obj.get(field) or ())


def _event_object(obj: Obj) -> str:
    about = obj.get("involvedObject") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def _format_age(obj: Obj) -> str:
    return age(obj.get("lastTimestamp") or obj.get("eventTime") or obj.get("firstTimestamp"))


def _conditions(obj: Obj) -> str:
    conditions = dig(obj, ("status", "conditions")) or ()
    return ",".join(str(c.get("type")) for c in conditions if c.get("status", "True") == "True")


AGE: tuple[str, Read] = ("Age", _since("metadata.creationTimestamp"))
NAMED: tuple[str, Read] = ("Name", at("metadata.name"))
WORKLOADS = {
    "DaemonSet": (
        ("Desired", _count("status.desiredNumberScheduled")),
        ("Current", _count("status.currentNumberScheduled")),
        ("Ready", _count("status.numberReady")),
    ),
    "Deployment": (
        ("Ready", _ready_of("spec.replicas")),
        ("Up-to-date", _count("status.updatedReplicas")),
        ("Available", _count("status.availableReplicas")),
    ),
    "ReplicaSet": (
        ("Desired", _count("spec.replicas")),
        ("Current", _count("status.replicas")),
        ("Ready", _count("status.readyReplicas")),
    ),
    "StatefulSet": (("Ready", _ready_of("spec.replicas")),),
    "Job": (("Completions", _count("status.succeeded")),),
}
COLUMNS: dict[str, Sequence[tuple[str, Read]]] = {
    **{kind: (NAMED, *columns, AGE) for kind, columns in WORKLOADS.items()},
    "Node": (
        NAMED,
        ("Status", _node_status),
        ("Roles", _node_roles),
        AGE,
        ("Version", _or("status.nodeInfo.kubeletVersion", "")),
    ),
    "Namespace": (NAMED, ("Status", at("status.phase")), AGE),
    "Pod": (
        NAMED,
        ("Ready", _pod_ready),
        ("Status", _pod_status),
        ("Restarts", _restarts),
        AGE,
        ("IP", _or("status.podIP", "<none>")),
        ("Node", _or("spec.nodeName", "<none>")),
    ),
    "Event": (
        ("Last Seen", _format_age),
        ("Type", at("type")),
        ("Reason", at("reason")),
        ("Object", _event_object),
        ("Message", at("message")),
    ),
    "ConfigMap": (NAMED, ("Data", _keys("data")), AGE),
    "Secret": (NAMED, ("Type", at("type")), ("Data", _keys("data")), AGE),
    "Service": (
        NAMED,
        ("Type", _or("spec.type", "ClusterIP")),
        ("Cluster-IP", _or("spec.clusterIP", "<none>")),
        AGE,
    ),
    "PodDisruptionBudget": (
        NAMED,
        ("Min Available", _or("spec.minAvailable", "N/A")),
        ("Max Unavailable", _or("spec.maxUnavailable", "N/A")),
        ("Allowed Disruptions", _count("status.disruptionsAllowed")),
        AGE,
    ),
    "Lease": (NAMED, ("Holder", _or("spec.holderIdentity", "")), AGE),
    "VolumeAttachment": (
        NAMED,
        ("Attacher", at("spec.attacher")),
        ("PV", _or("spec.source.persistentVolumeName", "")),
        ("Node", at("spec.nodeName")),
        ("Attached", at("status.attached")),
        AGE,
    ),
    "CertificateSigningRequest": (
        NAMED,
        AGE,
        ("SignerName", at("spec.signerName")),
        ("Requestor", _or("spec.username", "")),
        ("Condition", _conditions),
    ),
    "CustomResourceDefinition": (NAMED, ("Created At", at("metadata.creationTimestamp"))),
}
WIDE = {("Pod", "IP"), ("Pod", "Node")}

_STEP = re.compile(
    r"""\[\?\(@\.(?P<key>[\w.]+)\s*==\s*["'](?P<value>[^"']*)["']\)\]"""
    r"""|\[(?P<index>\d+|\*)\]|\['(?P<quoted>[^']+)'\]|\.?(?P<name>(?:\\\.|[^.\[\]])+)"""
)


def json_path(path: str) -> Read:
    """Compile the JSONPath of a printer column: names, indexes and `[?(@.type=="Ready")]`."""
    steps = [match.groupdict() for match in _STEP.finditer(path.strip())]

    def read(obj: Any) -> Any:
        for step in steps:
            obj = _take(obj, step)
            if obj is None:
                return None
        return obj

    return read


def _take(obj: Any, step: dict[str, str | None]) -> Any:
    if step["key"] is not None:
        keys = tuple(step["key"].split("."))
        items = obj if isinstance(obj, list) else []
        return next((item for item in items if dig(item, keys) == step["value"]), None)
    if step["index"] is not None:
        at_ = 0 if step["index"] == "*" else int(step["index"])
        return obj[at_] if isinstance(obj, list) and at_ < len(obj) else None
    name = step["quoted"] or (step["name"] or "").replace("\\.", ".")
    return obj.get(name) if isinstance(obj, dict) else None


def _crd_column(column: Column) -> Read:
    read = json_path(column.json_path)
    if column.type == "date":
        return lambda obj: None if (value := read(obj)) is None else age(value)
    return lambda obj: (
        value if isinstance(value := read(obj), str | int | bool | None) else (str(value))
    )


class Tabular:
    """Turns objects into rows. Only the first table has the columns, as a watch needs it."""

    def __init__(self, resource: ServedResource, form: Form) -> None:
        self._form = form
        self._sent_columns = False
        if resource.crd:
            given = [(c.name, _crd_column(c), c.type, c.priority) for c in resource.columns]
            plain = [(NAMED[0], NAMED[1], "string", 0), *given]
            self._columns = plain if given else [*plain, (*AGE, "string", 0)]
        else:
            columns = COLUMNS.get(resource.kind, (NAMED, AGE))
            self._columns = [
                (name, read, "string", int((resource.kind, name) in WIDE)) for name, read in columns
            ]

    def render_object(self, obj: Obj) -> Obj:
        return self.many([obj], {"resourceVersion": obj["metadata"]["resourceVersion"]})

    def mark(self, metadata: Obj) -> Obj:
        return self.many([], metadata)

    def many(self, objs: Sequence[Obj], metadata: Obj) -> Obj:
        """Return a meta.k8s.io/v1 Table."""
        table: Obj = {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "columnDefinitions": [] if self._sent_columns else self._definitions(),
            "rows": [self._row(obj) for obj in objs],
        }
        self._sent_columns = True
        return table

    def _definitions(self) -> list[Obj]:
        return [
            {
                "name": name,
                "type": type_,
                "format": "name" if name == "Name" else "",
                "description": "",
                "priority": priority,
            }
            for name, _, type_, priority in self._columns
        ]

    def _row(self, obj: Obj) -> Obj:
        row: Obj = {"cells": [read(obj) for _, read, _, _ in self._columns]}
        if self._form is Form.OBJECT:
            row["object"] = obj
        elif self._form is Form.METADATA:
            row["object"] = partial(obj["metadata"])
        return row
