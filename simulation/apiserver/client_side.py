"""From client-side to server-side apply: what `kubectl apply` left in its annotation is its own.

Source: apimachinery `pkg/util/managedfields/internal/lastapplied{manager,updater}.go`.
"""

from typing import Any

import msgspec

from simulation.apiserver import fields, managed_fields
from simulation.apiserver.errors import Obj
from simulation.apiserver.fields import Paths
from simulation.apiserver.registry import ServedResource
from simulation.apiserver.store import encode

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
KUBECTL = "kubectl"
"""The one manager for which this is done."""


def own(resource: ServedResource, live: Obj, manager: str) -> Paths:
    """The fields that `manager` may take from others, as it applied them before by itself."""
    text = _annotation(live)
    if manager != KUBECTL or not text:
        return set()
    form = managed_fields.shape(resource)
    try:
        last: Any = msgspec.json.decode(text)
        applied = managed_fields.owned_part(last)
        differs = fields.compare(managed_fields.owned_part(live), applied, form)
        return fields.of(applied, form) - differs.added - differs.modified - differs.removed
    except (AttributeError, ValueError):
        return set()


def renewed(obj: Obj, config: Obj, manager: str) -> Obj:
    """`obj` with the annotation, where it has one, saying what was applied now."""
    if manager != KUBECTL or not _annotation(obj):
        return obj
    metadata = obj["metadata"]
    annotations = {**metadata["annotations"], ANNOTATION: encode(config).decode() + "\n"}
    return {**obj, "metadata": {**metadata, "annotations": annotations}}


def _annotation(obj: Obj) -> str:
    return ((obj.get("metadata") or {}).get("annotations") or {}).get(ANNOTATION) or ""
