"""Decoding by type: unknown fields and wrong types in built-in kinds, and in metadata of all kinds.

A real server reads JSON into typed structures. A value of another type cannot be read; an unknown
field is dropped, reported as a warning or refused, depending on `fieldValidation`.
"""

import re
from functools import lru_cache
from typing import Any

from simulation.apiserver import builtin
from simulation.apiserver.errors import Obj
from simulation.apiserver.registry import ServedResource
from simulation.apiserver.shape import Shape

_QUANTITY = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/\r\n]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "bool": (bool,),
    "int": (int,),
    "int64": (int,),
    "number": (int, float),
    "bytes": (str,),
    "time": (str,),
    "quantity": (str, int, float),
    "int-or-string": (str, int),
    "object": (dict,),
    "array": (list,),
}
PATTERNS = {"bytes": _BASE64, "time": _TIME, "quantity": _QUANTITY}
TEXTS = ("string", "int-or-string")
TYPE_NAMES = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "bool",
    int: "number",
    float: "number",
}


class Mistyped(ValueError):
    """A value that its field cannot hold; the message names both."""


@lru_cache(maxsize=256)
def shape_of(resource: ServedResource) -> Shape:
    """Return the shape of a built-in kind, or of metadata, the typed part of a custom resource."""
    if resource.crd:
        return _CUSTOM
    return builtin.shape(builtin.name_of(resource.group, resource.version, resource.kind))


def fit(shape: Shape, value: Obj, old: Obj | None, unknown: list[str]) -> Obj:
    """Return `value` without the fields that `shape` does not have; add their paths to `unknown`.

    Parts shared with `old` were checked when it was stored. Raises Mistyped.
    """
    return value if _sound(shape, value, old) else _fit_object(shape, value, old, "", unknown)


def _sound(shape: Shape, value: Obj, old: Any) -> bool:
    """Return whether `value` fits as it is: the usual case, so it must be fast."""
    fields, element = shape.fields, shape.element
    known = old if type(old) is dict else {}
    for key, item in value.items():
        part = fields.get(key, element)
        if part is None:
            return False
        kind = type(item)
        if kind is part.plain or known.get(key) is item:
            continue
        if kind is dict and part.type == "object":
            if not _sound(part, item, known.get(key)):
                return False
        elif kind is list and part.type == "array":
            if not _sound_list(part.element, item, known.get(key)):
                return False
        elif part.type and not (kind is str and _is_text_of(part.type, item)):
            return False
    return True


def _sound_list(part: Shape | None, value: list[Any], old: Any) -> bool:
    assert part is not None
    if part.plain is not None:
        return all(type(item) is part.plain for item in value)
    if part.type != "object":
        return False
    known = {id(item) for item in old} if type(old) is list else ()
    return all(
        id(item) in known or (type(item) is dict and _sound(part, item, None)) for item in value
    )


@lru_cache(maxsize=4096)
def _is_text_of(type_: str, text: str) -> bool:
    pattern = PATTERNS.get(type_)
    return type_ in TEXTS if pattern is None else bool(pattern.fullmatch(text))


def _fit(shape: Shape, value: Any, old: Any, path: str, unknown: list[str]) -> Any:
    if value is None or not shape.type:
        return value
    if isinstance(value, bool) and shape.type != "bool":
        raise _mistyped(shape, value, path)
    if not isinstance(value, TYPES[shape.type]):
        raise _mistyped(shape, value, path)
    if isinstance(value, dict):
        return _fit_object(shape, value, old if isinstance(old, dict) else None, path, unknown)
    if isinstance(value, list):
        return _fit_list(shape, value, old if isinstance(old, list) else [], path, unknown)
    if not isinstance(value, str) or _is_text_of(shape.type, value):
        return value
    raise Mistyped(f"{path}: {value!r} is no {shape.type}")


def _fit_object(shape: Shape, value: Obj, old: Obj | None, path: str, unknown: list[str]) -> Obj:
    fields, element, result = shape.fields, shape.element, value
    for key, item in value.items():
        part = fields.get(key, element)
        if part is not None:
            if type(item) is part.plain or (old is not None and old.get(key) is item):
                continue
            fitted = _fit(
                part, item, old.get(key) if old else None, f"{path}.{key}" if path else key, unknown
            )
            if fitted is item:
                continue
            result = dict(result) if result is value else result
            result[key] = fitted
        else:
            result = dict(result) if result is value else result
            del result[key]
            unknown.append(f"{path}.{key}" if path else key)
    return result


def _fit_list(
    shape: Shape, value: list[Any], old: list[Any], path: str, unknown: list[str]
) -> list[Any]:
    part = shape.element
    assert part is not None
    known = {id(item) for item in old}
    items = [
        item
        if type(item) is part.plain or id(item) in known
        else _fit(part, item, None, f"{path}[{n}]", unknown)
        for n, item in enumerate(value)
    ]
    return value if all(a is b for a, b in zip(items, value, strict=True)) else items


def _mistyped(shape: Shape, value: Any, path: str) -> Mistyped:
    return Mistyped(
        f"json: cannot unmarshal {TYPE_NAMES[type(value)]} into {path} of type {shape.type}"
    )


_CUSTOM = Shape(
    "object", element=Shape(""), load=lambda: {"metadata": builtin.shape(builtin.METADATA)}
)
