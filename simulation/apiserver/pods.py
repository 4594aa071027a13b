"""Validation of pods, and of the pod templates of workloads.

Source: kubernetes `pkg/apis/core/validation/validation.go`.
"""

from collections.abc import Iterator, Sequence

from simulation.apiserver.checks import (
    DNS_LABEL,
    check_choice,
    distinct,
    missing,
    port,
    subdomain,
    wrong,
)
from simulation.apiserver.errors import Cause, Obj

RESTARTS = ("Always", "OnFailure", "Never")
DNS = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
PULLS = ("Always", "IfNotPresent", "Never")
PROTOCOLS = ("SCTP", "TCP", "UDP")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
MAY_CHANGE = frozenset(
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
"""Fields of a spec that an update may change, within the limits of `update`."""


def spec(value: Obj, path: str = "spec", restarts: Sequence[str] = RESTARTS) -> Iterator[Cause]:
    """Check the spec of a pod.

    path: where the spec is.
    restarts: the allowed restart policies.
    """
    if not value.get("containers"):
        yield missing(f"{path}.containers")
    volumes = value.get("volumes") or ()
    known = {volume.get("name") for volume in volumes}
    for field in ("containers", "initContainers"):
        for n, container in enumerate(value.get(field) or ()):
            yield from _container(container, f"{path}.{field}[{n}]", known)
    if len(value.get("containers") or ()) > 1:
        yield from distinct(f"{path}.containers", value["containers"])
    if volumes:
        yield from distinct(f"{path}.volumes", volumes)
    yield from check_choice(f"{path}.restartPolicy", value.get("restartPolicy"), restarts)
    yield from check_choice(f"{path}.dnsPolicy", value.get("dnsPolicy"), DNS)
    for n, toleration in enumerate(value.get("tolerations") or ()):
        yield from _toleration(toleration, f"{path}.tolerations[{n}]")
    deadline = value.get("activeDeadlineSeconds")
    if deadline is not None and deadline < 1:
        why = "must be between 1 and 2147483647, inclusive"
        yield wrong(f"{path}.activeDeadlineSeconds", deadline, why)
    if node := value.get("nodeName"):
        yield from subdomain(f"{path}.nodeName", node)


def _container(value: Obj, path: str, volumes: set[str | None]) -> Iterator[Cause]:
    name = value.get("name", "")
    if not name:
        yield missing(f"{path}.name")
    elif not DNS_LABEL.fullmatch(name):
        yield wrong(f"{path}.name", name, "must be a lowercase RFC 1123 label")
    if not value.get("image"):
        yield missing(f"{path}.image")
    yield from check_choice(f"{path}.imagePullPolicy", value.get("imagePullPolicy"), PULLS)
    for n, opened in enumerate(value.get("ports") or ()):
        at = f"{path}.ports[{n}]"
        yield from port(f"{at}.containerPort", opened.get("containerPort"))
        yield from check_choice(f"{at}.protocol", opened.get("protocol"), PROTOCOLS)
    for n, mount in enumerate(value.get("volumeMounts") or ()):
        if mount.get("name") not in volumes:
            at = f"{path}.volumeMounts[{n}].name"
            yield Cause(at, f'Not found: "{mount.get("name")}"', "FieldValueNotFound")


def _toleration(value: Obj, path: str) -> Iterator[Cause]:
    operator = value.get("operator")
    yield from check_choice(f"{path}.operator", operator, ("Equal", "Exists"))
    if operator == "Exists" and value.get("value"):
        why = "value must be empty when `operator` is 'Exists'"
        yield wrong(f"{path}.operator", value["value"], why)
    yield from check_choice(f"{path}.effect", value.get("effect") or None, EFFECTS)


def update(new: Obj, old: Obj) -> Iterator[Cause]:
    """Check that an update changes only mutable fields of a pod's spec."""

    def frozen(value: Obj) -> Obj:
        rest = {key: item for key, item in value.items() if key not in MAY_CHANGE}
        for key in ("containers", "initContainers"):
            rest[key] = [{**c, "image": ""} for c in value.get(key) or ()]
        return rest

    retained = [
        toleration in (new.get("tolerations") or ()) for toleration in old.get("tolerations") or ()
    ]
    moved = new.get("nodeName") != old.get("nodeName")
    if frozen(new) != frozen(old) or moved or not all(retained):
        yield Cause(
            "spec",
            "Forbidden: pod updates may not change fields other than "
            "`spec.containers[*].image`,`spec.initContainers[*].image`,"
            "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
            "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
            "previously negative)",
            "FieldValueForbidden",
        )
