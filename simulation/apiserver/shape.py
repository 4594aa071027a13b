"""The shape of a value: its fields, and which parts of it are owned separately.

One description serves built-in kinds and custom resources, where single parts of an object matter:
for unknown fields and for ownership in server-side apply.
Source: kubernetes-sigs/structured-merge-diff `schema/elements.go`; `x-kubernetes-list-type`,
`-list-map-keys` and `-map-type` of OpenAPI.
"""

from collections.abc import Callable, Mapping
from typing import Any

from simulation.apiserver.errors import Obj

Fields = Mapping[str, "Shape"]
PLAIN: dict[str, type] = {"string": str, "bool": bool, "int": int, "int64": int}


class Shape:
    """One value.

    type: "object", "array", the type of a scalar ("string", "int", ...), or "" for any.
    whole: it is owned and replaced as a whole: scalars, atomic lists and maps.
    element: the shape of map values or list items; None if the keys are declared.
    keys: the fields that identify the items of a list; () in a list of type "set".
    default: the value of an absent key field.
    plain: the Python type of every such value; None if each value must be checked.
    """

    __slots__ = ("_load", "_loaded", "default", "element", "keys", "plain", "type", "whole")

    def __init__(
        self,
        type_: str,
        *,
        whole: bool = False,
        element: "Shape | None" = None,
        keys: tuple[str, ...] = (),
        default: Any = None,
        load: Callable[[], Fields] | None = None,
    ) -> None:
        self.type = type_
        self.whole = whole
        self.element = element
        self.keys = keys
        self.default = default
        self.plain = PLAIN.get(type_)
        self._load = load
        self._loaded: Fields | None = None

    @property
    def fields(self) -> Fields:
        """Return the declared fields of an object, read on first use, since kinds are deep."""
        if self._loaded is None:
            self._loaded = self._load() if self._load is not None else {}
        return self._loaded

    def part(self, name: str) -> "Shape | None":
        """Return the shape of the field `name`; None if an object has no such field."""
        return self.fields.get(name, self.element)

    def as_whole(self) -> "Shape":
        """Return the same shape, owned as a whole."""
        if self.whole:
            return self
        return Shape(self.type, whole=True, element=self.element, load=lambda: self.fields)


ANY = Shape("")
"""Any value: the fields of an object are owned separately, a list as a whole."""
ANY.element = ANY


def of_schema(source: Obj) -> Shape:
    """Return the shape that a structural schema of a CRD describes."""
    if source.get("x-kubernetes-int-or-string"):
        return Shape("int-or-string", whole=True)
    match source.get("type"):
        case "object":
            return _object(source)
        case "array":
            items = source.get("items")
            kind = source.get("x-kubernetes-list-type")
            keys = tuple(source.get("x-kubernetes-list-map-keys") or ())
            element = of_schema(items) if isinstance(items, dict) else ANY
            return Shape("array", whole=kind not in ("map", "set"), element=element, keys=keys)
        case None:
            return ANY
        case type_:
            return Shape(type_, whole=True, default=source.get("default"))


def _object(source: Obj) -> Shape:
    extra = source.get("additionalProperties")
    element = of_schema(extra) if isinstance(extra, dict) else None
    if source.get("x-kubernetes-preserve-unknown-fields") or extra is True:
        element = ANY
    properties = source.get("properties") or {}
    return Shape(
        "object",
        whole=source.get("x-kubernetes-map-type") == "atomic",
        element=element,
        load=lambda: {name: of_schema(part) for name, part in properties.items()},
    )
