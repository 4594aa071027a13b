"""The scale subresource, which `kubectl scale` and autoscalers use.

Source: apiextensions-apiserver `pkg/registry/customresource/etcd.go` (ScaleREST), autoscaling/v1.
"""

from dataclasses import dataclass
from typing import Any

from simulation.apiserver.errors import Cause, Obj, bad_request, invalid
from simulation.apiserver.registry import ScalePaths, ServedResource

LARGEST = 2**31 - 1
METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


@dataclass(frozen=True, slots=True)
class Scaling:
    """The scale subresource of a resource with replicas at `paths`."""

    resource: ServedResource
    paths: ScalePaths

    def scale(self, obj: Obj) -> Obj:
        """Return the Scale of an object. Absent counts are 0; a spec of 0 replicas is left out."""
        spec = _at(obj, self.paths.spec)
        status: Obj = {"replicas": _at(obj, self.paths.status) or 0}
        if self.paths.selector and (selector := _at(obj, self.paths.selector)):
            status["selector"] = selector_text(selector) if isinstance(selector, dict) else selector
        metadata = obj["metadata"]
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {key: metadata[key] for key in METADATA if key in metadata},
            "spec": {"replicas": spec} if spec else {},
            "status": status,
        }

    def scaled(self, obj: Obj, scale: Any) -> Obj:
        """Return the object with the replicas, UID and version of `scale`. Raises ApiError."""
        name = obj["metadata"]["name"]
        if not isinstance(scale, dict) or not isinstance(scale.get("spec") or {}, dict):
            raise bad_request("the body is no Scale of autoscaling/v1")
        given = scale.get("metadata") or {}
        if given.get("name", name) != name:
            raise bad_request(
                f"the name of the object ({given['name']}) does not match the name on the URL"
                f" ({name})"
            )
        replicas = (scale.get("spec") or {}).get("replicas", 0)
        if type(replicas) is not int or not 0 <= replicas <= LARGEST:
            why = "must be greater than or equal to 0"
            raise invalid(
                self.resource, name, [Cause("spec.replicas", f"Invalid value: {replicas}: {why}")]
            )
        metadata = dict(obj["metadata"])
        metadata |= {key: given[key] for key in ("uid", "resourceVersion") if given.get(key)}
        return _with({**obj, "metadata": metadata}, self.paths.spec, replicas)


def selector_text(selector: Obj) -> str:
    """Render a metav1.LabelSelector as a `labelSelector` parameter."""
    terms = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for term in selector.get("matchExpressions") or ():
        key, values = term["key"], f"({','.join(sorted(term.get('values') or ()))})"
        match term["operator"]:
            case "In":
                terms.append((key, f"{key} in {values}"))
            case "NotIn":
                terms.append((key, f"{key} notin {values}"))
            case "Exists":
                terms.append((key, key))
            case _:
                terms.append((key, f"!{key}"))
    return ",".join(text for _, text in sorted(terms))


def _at(obj: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        obj = obj.get(key) if isinstance(obj, dict) else None
    return obj


def _with(obj: Obj, path: tuple[str, ...], value: Any) -> Obj:
    head, *rest = path
    inner = obj.get(head) or {}
    return {**obj, head: _with(inner, tuple(rest), value) if rest else value}
