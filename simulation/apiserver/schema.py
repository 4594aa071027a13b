"""Structural schemas of CRDs: prune unknown fields, fill defaults, validate.

A schema is compiled once, when its CRD is installed. Pruning and defaulting return the same object
when there is nothing to do, so that versions of an object share unchanged parts. CEL rules
(`x-kubernetes-validations`) are not evaluated: the demo installs ours as admission hooks.
Source: apiextensions-apiserver `pkg/apiserver/schema`, `pkg/apiserver/validation`.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from simulation.apiserver.errors import Cause, Obj

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}
_MISSING = object()


def show(value: Any) -> str:
    return msgspec.json.encode(value).decode()


class Schema:
    """One node of a compiled structural schema (`openAPIV3Schema` of a CRD version)."""

    __slots__ = (
        "constrained",
        "default",
        "extra",
        "int_or_string",
        "items",
        "joined",
        "map_keys",
        "nullable",
        "open",
        "pattern",
        "properties",
        "required",
        "source",
        "types",
        "with_defaults",
    )

    def __init__(self, source: Obj) -> None:
        self.source = source
        self.properties = {k: Schema(v) for k, v in (source.get("properties") or {}).items()}
        extra = source.get("additionalProperties")
        self.extra = Schema(extra) if isinstance(extra, dict) else None
        self.open = bool(
            extra is True
            or source.get("x-kubernetes-preserve-unknown-fields")
            or source.get("x-kubernetes-embedded-resource")
        )
        self.items = Schema(source["items"]) if isinstance(source.get("items"), dict) else None
        self.required: tuple[str, ...] = tuple(source.get("required") or ())
        self.nullable = bool(source.get("nullable"))
        self.default = source.get("default", _MISSING)
        self.int_or_string = bool(source.get("x-kubernetes-int-or-string"))
        self.types = (int, str) if self.int_or_string else _TYPES.get(source.get("type", ""))
        self.pattern = re.compile(source["pattern"]) if "pattern" in source else None
        self.map_keys: tuple[str, ...] = (
            tuple(source.get("x-kubernetes-list-map-keys") or ())
            if source.get("x-kubernetes-list-type") == "map"
            else ()
        )
        self.with_defaults = tuple(
            (key, part) for key, part in self.properties.items() if part.default is not _MISSING
        )
        self.constrained = bool(
            source.keys()
            & {
                "enum",
                "format",
                "minimum",
                "maximum",
                "multipleOf",
                "minLength",
                "maxLength",
                "minItems",
                "maxItems",
                "minProperties",
                "maxProperties",
            }
        )
        self.joined = bool(source.keys() & {"allOf", "anyOf", "oneOf", "not"})

    # ---- pruning

    def prune(self, value: Any, path: str = "", dropped: list[str] | None = None) -> Any:
        """Return `value` without undeclared fields; add their paths to `dropped`."""
        if isinstance(value, dict):
            return self._prune_object(value, path, dropped)
        if isinstance(value, list) and self.items is not None:
            part = self.items
            items = [part.prune(item, f"{path}[{n}]", dropped) for n, item in enumerate(value)]
            return value if all(a is b for a, b in zip(items, value, strict=True)) else items
        return value

    def _prune_object(self, value: Obj, path: str, dropped: list[str] | None) -> Obj:
        result = value
        for key, item in value.items():
            part = self.properties.get(key, self.extra)
            if part is not None:
                pruned = part.prune(item, f"{path}.{key}" if path else key, dropped)
                if pruned is item:
                    continue
                result = dict(result) if result is value else result
                result[key] = pruned
            elif not self.open:
                result = dict(result) if result is value else result
                del result[key]
                if dropped is not None:
                    dropped.append(f"{path}.{key}" if path else key)
        return result

    # ---- defaulting

    def fill(self, value: Any) -> Any:
        """Return `value` with defaults where fields are absent (or null and not nullable)."""
        if isinstance(value, dict):
            return self._fill_object(value)
        if isinstance(value, list) and self.items is not None:
            part = self.items
            items = [part.fill(item) for item in value]
            return value if all(a is b for a, b in zip(items, value, strict=True)) else items
        return value

    def _fill_object(self, value: Obj) -> Obj:
        result = value
        for key, part in self.with_defaults:
            if key not in value or (value[key] is None and not part.nullable):
                result = dict(result) if result is value else result
                result[key] = part.default  # shared: stored objects are never changed in place
        for key, item in list(result.items()):
            part_ = self.properties.get(key, self.extra)
            if part_ is None or not isinstance(item, dict | list):
                continue
            filled = part_.fill(item)
            if filled is not item:
                result = dict(result) if result is value else result
                result[key] = filled
        return result

    # ---- validation

    def validate(self, value: Any, path: str = "") -> Iterator[Cause]:
        """Yield the errors in `value`."""
        if value is None:
            if not self.nullable:
                wanted = self.source.get("type", "value")
                yield Cause(
                    path,
                    f'Invalid value: "null": {path} in body must be of type {wanted}: "null"',
                    "FieldValueTypeInvalid",
                )
            return
        if self.types is not None and not self._has_type(value):
            wanted = "integer or string" if self.int_or_string else self.source["type"]
            yield Cause(
                path,
                f"Invalid value: {show(value)}: {path} in body must be of type {wanted}: "
                f"{show(value)}",
                "FieldValueTypeInvalid",
            )
            return
        if self.pattern is not None and isinstance(value, str) and not self.pattern.search(value):
            yield Cause(
                path,
                f"Invalid value: {show(value)}: {path} in body should match "
                f"'{self.source['pattern']}'",
            )
        if self.constrained:
            yield from self._constraints(value, path)
        if self.joined:
            yield from self._junctors(value, path)
        if isinstance(value, dict):
            yield from self._validate_object(value, path)
        elif isinstance(value, list):
            yield from self._validate_list(value, path)

    def _has_type(self, value: Any) -> bool:
        types = self.types
        assert types is not None
        if isinstance(value, bool):
            return bool in types
        if types == (int,) and isinstance(value, float):
            return value.is_integer()
        return isinstance(value, types)

    def _validate_object(self, value: Obj, path: str) -> Iterator[Cause]:
        for key in self.required:
            if key not in value:
                yield Cause(
                    f"{path}.{key}" if path else key, "Required value", "FieldValueRequired"
                )
        for key, item in value.items():
            part = self.properties.get(key, self.extra)
            if part is not None:
                yield from part.validate(item, f"{path}.{key}" if path else key)

    def _validate_list(self, value: list[Any], path: str) -> Iterator[Cause]:
        kind = self.source.get("x-kubernetes-list-type")
        if kind in ("map", "set"):
            identities = set()
            for n, item in enumerate(value):
                keys = [item.get(key) for key in self.map_keys] if self.map_keys else item
                identity = show(keys)
                if identity in identities:
                    shown = show(
                        dict(zip(self.map_keys, keys, strict=True)) if kind == "map" else item
                    )
                    yield Cause(f"{path}[{n}]", f"Duplicate value: {shown}", "FieldValueDuplicate")
                identities.add(identity)
        if self.items is not None:
            for n, item in enumerate(value):
                yield from self.items.validate(item, f"{path}[{n}]")

    def _constraints(self, value: Any, path: str) -> Iterator[Cause]:
        source = self.source

        def should(what: str) -> Cause:
            return Cause(path, f"Invalid value: {show(value)}: {path} in body should {what}")

        if "enum" in source and value not in source["enum"]:
            allowed = ", ".join(show(item) for item in source["enum"])
            yield Cause(
                path,
                f"Unsupported value: {show(value)}: supported values: {allowed}",
                "FieldValueNotSupported",
            )
        if isinstance(value, int | float) and not isinstance(value, bool):
            low, high = source.get("minimum"), source.get("maximum")
            if low is not None and (
                value <= low if source.get("exclusiveMinimum") else value < low
            ):
                yield should(f"be greater than or equal to {low}")
            if high is not None and (
                value >= high if source.get("exclusiveMaximum") else value > high
            ):
                yield should(f"be less than or equal to {high}")
            if source.get("multipleOf") and value % source["multipleOf"]:
                yield should(f"be a multiple of {source['multipleOf']}")
        for size, low_key, high_key, unit in (
            (str, "minLength", "maxLength", "chars long"),
            (list, "minItems", "maxItems", "items"),
            (dict, "minProperties", "maxProperties", "properties"),
        ):
            if isinstance(value, size):
                if len(value) < source.get(low_key, 0):
                    yield should(f"be at least {source[low_key]} {unit}")
                if len(value) > source.get(high_key, len(value)):
                    yield Cause(
                        path,
                        f"Too long: may not be more than {source[high_key]} {unit}",
                        "FieldValueTooLong",
                    )
        if (
            source.get("format") == "date-time"
            and isinstance(value, str)
            and not _DATE.match(value)
        ):
            yield Cause(
                path,
                f"Invalid value: {show(value)}: {path} in body must be of type date-time: "
                f"{show(value)}",
            )

    def _junctors(self, value: Any, path: str) -> Iterator[Cause]:
        source = self.source

        def fits(part: Obj) -> bool:
            return next(Schema(part).validate(value, path), None) is None

        for part in source.get("allOf") or ():
            yield from Schema(part).validate(value, path)
        if source.get("anyOf") and not any(fits(part) for part in source["anyOf"]):
            yield Cause(
                path, f"Invalid value: {path} in body must validate at least one schema (anyOf)"
            )
        if source.get("oneOf") and sum(fits(part) for part in source["oneOf"]) != 1:
            yield Cause(
                path, f"Invalid value: {path} in body must validate one and only one schema (oneOf)"
            )
        if source.get("not") and fits(source["not"]):
            yield Cause(path, f"Invalid value: {path} in body must not validate the schema (not)")


_DATE = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$")
