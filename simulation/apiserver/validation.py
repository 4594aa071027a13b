"""Validation of objects of built-in kinds.

It has the checks that KubeNode, or a user with kubectl, is likely to need; the contract suite names
them. What depends on other checks needs a real server.
Source: kubernetes `pkg/apis/*/validation`.
"""

import ipaddress
from collections.abc import Callable, Iterator

from simulation.apiserver import pods
from simulation.apiserver.checks import (
    amount,
    at_least,
    check_choice,
    distinct,
    keys,
    missing,
    port,
    selector,
    subdomain,
    wrong,
)
from simulation.apiserver.errors import Cause, Obj
from simulation.apiserver.kinds import is_qualified
from simulation.apiserver.registry import ServedResource
from simulation.apiserver.selectors import label_selector

LARGEST_DATA = 2**20
"""Maximum bytes of a ConfigMap or Secret."""
Check = Callable[[Obj, Obj | None], Iterator[Cause]]


def check(resource: ServedResource, obj: Obj, old: Obj | None) -> Iterator[Cause]:
    """Yield the errors in an object of a built-in kind.

    old: None for a new object.
    """
    checker = CHECKS.get(resource.kind)
    if checker is not None:
        yield from checker(obj, old)


def _spec(obj: Obj | None) -> Obj:
    return (obj or {}).get("spec") or {}


def _pod(obj: Obj, old: Obj | None) -> Iterator[Cause]:
    if old is not None and obj.get("spec") == old.get("spec"):
        return
    yield from pods.spec(_spec(obj))
    if old is not None:
        yield from pods.update(_spec(obj), _spec(old))


def _node(obj: Obj, old: Obj | None) -> Iterator[Cause]:
    spec = _spec(obj)
    if (own := spec.get("podCIDR")) and (old is None or own != _spec(old).get("podCIDR")):
        yield from _network("spec.podCIDRs[0]", own)
    taints = spec.get("taints") or []
    if old is not None and (old.get("spec") or {}).get("taints") is taints:
        return
    pairs = set()
    for n, taint in enumerate(taints):
        key, effect = taint.get("key", ""), taint.get("effect", "")
        if not is_qualified(key):
            yield Cause(f"spec.taints[{n}].key", f'Invalid value: "{key}": not a qualified name')
        if effect not in pods.EFFECTS:
            yield Cause(
                f"spec.taints[{n}].effect",
                f'Unsupported value: "{effect}": supported values: {", ".join(pods.EFFECTS)}',
                "FieldValueNotSupported",
            )
        if (key, effect) in pairs:
            yield Cause(f"spec.taints[{n}]", f'Duplicate value: "{key}"', "FieldValueDuplicate")
        pairs.add((key, effect))


def _network(path: str, value: str) -> Iterator[Cause]:
    try:
        ipaddress.ip_network(value)
    except ValueError:
        yield wrong(path, value, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")


def _event(obj: Obj, old: Obj | None) -> Iterator[Cause]:
    """Check an Event. Events of cluster-scoped objects are in `default` (or kube-system)."""
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
    """Check a ControllerRevision.

    Source: kubernetes `pkg/apis/apps/validation`, ValidateControllerRevision.
    """
    if obj.get("data") is None:
        yield Cause("data", "Required value: data is mandatory", "FieldValueRequired")
    if not isinstance(revision := obj.get("revision", 0), int) or revision < 0:
        yield Cause("revision", f"Invalid value: {revision}: must be greater than or equal to 0")
    if old is not None and obj.get("data") != old.get("data"):
        yield Cause("data", "Invalid value: field is immutable")


def _lease(obj: Obj, old: Obj | None) -> Iterator[Cause]:
    seconds = _spec(obj).get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        yield wrong("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    yield from at_least("spec.leaseTransitions", _spec(obj).get("leaseTransitions"), 0)


def _budget(obj: Obj, old: Obj | None) -> Iterator[Cause]:
    spec = _spec(obj)
    if "minAvailable" in spec and "maxUnavailable" in spec:
        yield Cause("spec", "Invalid value: minAvailable and maxUnavailable cannot be both set")
    for field in ("minAvailable", "maxUnavailable"):
        yield from amount(f"spec.{field}", spec.get(field))
    yield from selector("spec.selector", spec.get("selector"))
    policy = spec.get("unhealthyPodEvictionPolicy")
    path = "spec.unhealthyPodEvictionPolicy"
    yield from check_choice(path, policy, ("AlwaysAllow", "IfHealthyBudget"))


def _data(obj: Obj, old: Obj | None) -> Iterator[Cause]:
    """Check a ConfigMap or Secret."""
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    yield from keys("data", data)
    yield from keys("binaryData", binary)
    for key in data.keys() & binary.keys():
        yield wrong(f"data[{key}]", key, "duplicate of key present in binaryData")
    if sum(len(value) for value in (*data.values(), *binary.values())) > LARGEST_DATA:
        why = f"Too long: may not be more than {LARGEST_DATA} bytes"
        yield Cause("[]", why, "FieldValueTooLong")
    if obj["kind"] == "Secret" and obj.get("type") == "kubernetes.io/tls":
        for key in ("tls.crt", "tls.key"):
            if key not in data:
                yield missing(f"data[{key}]")


def _service(obj: Obj, old: Obj | None) -> Iterator[Cause]:
    spec = _spec(obj)
    ports = spec.get("ports") or ()
    kinds = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
    yield from check_choice("spec.type", spec.get("type"), kinds)
    if not ports and spec.get("type") != "ExternalName" and spec.get("clusterIP") != "None":
        yield missing("spec.ports")
    for n, opened in enumerate(ports):
        yield from port(f"spec.ports[{n}].port", opened.get("port"))
        path = f"spec.ports[{n}].protocol"
        yield from check_choice(path, opened.get("protocol"), pods.PROTOCOLS)
        if len(ports) > 1 and not opened.get("name"):
            yield missing(f"spec.ports[{n}].name")
    yield from distinct("spec.ports", [opened for opened in ports if opened.get("name")])


def _workload(obj: Obj, old: Obj | None) -> Iterator[Cause]:
    """Check a Deployment, ReplicaSet, StatefulSet or DaemonSet."""
    spec = _spec(obj)
    if old is not None and spec == _spec(old):
        return
    chosen = spec.get("selector")
    template = spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    yield from at_least("spec.replicas", spec.get("replicas"), 0)
    if chosen is None:
        yield missing("spec.selector")
    elif chosen == {}:
        yield wrong("spec.selector", "{}", f"empty selector is invalid for {obj['kind'].lower()}")
    elif bad := list(selector("spec.selector", chosen)):
        yield from bad
        return
    if chosen is None or not label_selector(chosen)(labels):
        why = "`selector` does not match template `labels`"
        yield wrong("spec.template.metadata.labels", labels, why)
    if old is not None and chosen != _spec(old).get("selector"):
        yield wrong("spec.selector", chosen, "field is immutable")
    yield from pods.spec(template.get("spec") or {}, "spec.template.spec", ("Always",))
    if obj["kind"] == "Deployment":
        how = (spec.get("strategy") or {}).get("type")
        yield from check_choice("spec.strategy", how, ("Recreate", "RollingUpdate"))


def _job(obj: Obj, old: Obj | None) -> Iterator[Cause]:
    spec = _spec(obj)
    if old is not None and spec == _spec(old):
        return
    for field in ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds"):
        yield from at_least(f"spec.{field}", spec.get(field), 0)
    template = (spec.get("template") or {}).get("spec") or {}
    ends = pods.RESTARTS[1:]
    if "restartPolicy" not in template:
        path = "spec.template.spec.restartPolicy"
        yield missing(path, f"valid values: {', '.join(ends)}")
    yield from pods.spec(template, "spec.template.spec", ends)


def _attachment(obj: Obj, old: Obj | None) -> Iterator[Cause]:
    spec = _spec(obj)
    if not spec.get("attacher"):
        yield missing("spec.attacher")
    sources = ("inlineVolumeSpec", "persistentVolumeName")
    if sum(bool((spec.get("source") or {}).get(source)) for source in sources) != 1:
        yield missing("spec.source", f"must specify exactly one of {' and '.join(sources)}")
    yield from subdomain("spec.nodeName", spec.get("nodeName") or "")
    if old is not None and spec != _spec(old):
        yield wrong("spec", spec, "field is immutable")


def _signing_request(obj: Obj, old: Obj | None) -> Iterator[Cause]:
    spec = _spec(obj)
    for field in ("request", "signerName", "usages"):
        if not spec.get(field):
            yield missing(f"spec.{field}")


def _role(obj: Obj, old: Obj | None) -> Iterator[Cause]:
    for n, rule in enumerate(obj.get("rules") or ()):
        if not rule.get("verbs"):
            yield missing(f"rules[{n}].verbs", "verbs must contain at least one value")


def _role_binding(obj: Obj, old: Obj | None) -> Iterator[Cause]:
    role = obj.get("roleRef") or {}
    kinds = ("Role", "ClusterRole") if obj["kind"] == "RoleBinding" else ("ClusterRole",)
    yield from check_choice("roleRef.kind", role.get("kind") or "", kinds)
    if not role.get("name"):
        yield missing("roleRef.name")
    for n, subject in enumerate(obj.get("subjects") or ()):
        path = f"subjects[{n}].kind"
        yield from check_choice(
            path, subject.get("kind") or "", ("ServiceAccount", "User", "Group")
        )
    if old is not None and role != old.get("roleRef"):
        yield wrong("roleRef", role, "cannot change roleRef")


CHECKS: dict[str, Check] = {
    "CertificateSigningRequest": _signing_request,
    "ClusterRole": _role,
    "ClusterRoleBinding": _role_binding,
    "ConfigMap": _data,
    "ControllerRevision": _controller_revision,
    "DaemonSet": _workload,
    "Deployment": _workload,
    "Event": _event,
    "Job": _job,
    "Lease": _lease,
    "Node": _node,
    "Pod": _pod,
    "PodDisruptionBudget": _budget,
    "ReplicaSet": _workload,
    "Role": _role,
    "RoleBinding": _role_binding,
    "Secret": _data,
    "Service": _service,
    "StatefulSet": _workload,
    "VolumeAttachment": _attachment,
}
