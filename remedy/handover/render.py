"""Renders a template of an object with the fields of a job and its node. Pure.

Values are inserted into texts of a structure that was parsed before, never into YAML: no name of a
node or job can add a field. A text stays a text, numbers and booleans stay as they are.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kubenode.runtime.kube import paths
from remedy.handover.settings import ObjectTemplate
from remedy.job.model import Job, NodeObservation
from remedy.notify.texts import BadTemplate, clean, compiled, rendered

JOB_LABEL, UID = "kubenode.io/job", "kubenode.io/job-uid"
"""Label and annotation that mark an object as ours."""
NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
LONGEST = 4096
"""Longest text, in characters."""


@dataclass(frozen=True, slots=True)
class RenderedObject:
    """A rendered object. `path` is its own path, `collection` the path for its creation.

    owner: path of its owner, "" for none; the caller that creates the object adds the owner's uid
    """

    path: str
    collection: str
    body: dict[str, Any]
    owner: str = ""


def values(job: Job, node: NodeObservation | None) -> dict[str, Any]:
    """Return the values that templates may use. A node that is gone has neither labels nor a
    provider.
    """
    spec, record = job.spec, job.record
    return {
        "job": job.name,
        "jobUID": job.uid,
        "node": spec.node_name,
        "nodeUID": spec.node_uid,
        "providerID": clean(node.provider_id) if node is not None else "",
        "labels": _cleaned(node.labels) if node is not None else {},
        "annotations": _cleaned(node.annotations) if node is not None else {},
        "rule": spec.remedier.name if spec.remedier is not None else "",
        "faultClass": spec.fault_class,
        "severity": str(spec.severity),
        "rung": record.rung if record is not None else 0,
        "step": record.index if record is not None else 0,
    }


def render(template: ObjectTemplate, known: Mapping[str, Any]) -> RenderedObject:
    """Render the object. Raises BadTemplate with the error for the author of the settings."""
    name, place = _name(template.name, known), template.namespace or None
    metadata: dict[str, Any] = {
        "name": name,
        "labels": {**_each(template.labels, known), JOB_LABEL: str(known["job"])},
        "annotations": {**_each(template.annotations, known), UID: str(known["jobUID"])},
    }
    if place is not None:
        metadata["namespace"] = place
    body = {
        "apiVersion": template.api_version,
        "kind": template.kind,
        "metadata": metadata,
        "spec": _filled(template.spec, known),
    }
    base, owner = _base(template.api_version), template.owner
    made = RenderedObject(
        paths.resource(base, template.plural, namespace=place, name=name),
        paths.resource(base, template.plural, namespace=place),
        body,
    )
    if owner is None:
        return made
    theirs = _name(owner.name, known)
    reference = {"apiVersion": owner.api_version, "kind": owner.kind, "name": theirs}
    metadata["ownerReferences"] = [reference]
    where = owner.namespace or None
    path = paths.resource(_base(owner.api_version), owner.plural, namespace=where, name=theirs)
    return replace(made, owner=path)


def _base(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def _name(text: str, known: Mapping[str, Any]) -> str:
    name = _text(text, known)
    if not NAME.fullmatch(name) or len(name) > 253:
        raise BadTemplate(f"name {name[:64]!r} is none of an object: lower case, digits, - and .")
    return name


def _filled(value: Any, known: Mapping[str, Any]) -> Any:
    match value:
        case str():
            return _text(value, known)
        case dict():
            return {key: _filled(inner, known) for key, inner in value.items()}
        case list():
            return [_filled(inner, known) for inner in value]
        case _:
            return value


def _each(texts: Mapping[str, str], known: Mapping[str, Any]) -> dict[str, str]:
    return {key: _text(text, known) for key, text in texts.items()}


def _text(text: str, known: Mapping[str, Any]) -> str:
    if "{" not in text:
        return text
    filled = rendered(compiled(text), dict(known))
    if len(filled) > LONGEST or not filled.isprintable():
        raise BadTemplate(f"{text[:64]!r} becomes too long, or holds a control character")
    return filled


def _cleaned(marks: Mapping[str, str]) -> dict[str, str]:
    return {key: clean(value) for key, value in marks.items()}
