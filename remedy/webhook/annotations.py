"""Reads annotations of a reviewed object, and builds the JSON patch that changes them. Pure."""

from collections.abc import Mapping
from typing import Any

Obj = Mapping[str, Any]


def mapping(value: Any) -> Obj:
    """Return `value`, or an empty mapping for another type, which the schema refuses later."""
    return value if isinstance(value, Mapping) else {}


def annotations(obj: Obj) -> Mapping[str, str]:
    given = mapping(mapping(obj.get("metadata")).get("annotations"))
    return {key: text for key, text in given.items() if isinstance(text, str)}


def annotation_patch(obj: Obj, changes: Mapping[str, str]) -> list[Obj]:
    """Build the operations that set these annotations; an empty text removes one."""
    given = annotations(obj)
    patch: list[Obj] = []
    if changes and not given:
        patch.append({"op": "add", "path": "/metadata/annotations", "value": {}})
    for key, text in changes.items():
        path = f"/metadata/annotations/{key.replace('/', '~1')}"
        if text:
            patch.append({"op": "add", "path": path, "value": text})
        elif key in given:
            patch.append({"op": "remove", "path": path})
    return patch
