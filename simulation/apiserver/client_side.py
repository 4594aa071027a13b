"""Client-side to server-side apply: `kubectl apply` owns the fields in its annotation.

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
"""The only manager that is migrated."""


def own(resource: ServedResource, live: Obj, manager: str) -> Paths:
    """Return the fields that `manager` may take from others: it applied them client-side before."""
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
    """Return `obj` with its annotation, if it has one, set to the configuration applied now."""
    if manager != KUBECTL or not _annotation(obj):
        return obj
    metadata = obj["metadata"]
    annotations = {**metadata["annotations"], ANNOTATION: encode(config).decode() + "\n"}
    return {**obj, "metadata": {**metadata, "annotations": annotations}}


def _annotation(obj: Obj) -> str:
    return ((obj.get("metadata") or {}).get("annotations") or {}).get(ANNOTATION) or ""
