"""Structural schemas of all kinds for CustomResourceDefinitions.

The source is the JSON schema that pydantic generates for a kind. It is made structural: references
are inlined, `anyOf: [X, null]` becomes X, defaults are JSON values, and checks that a schema cannot
express come from the CEL rules of the models. The API server applies the defaults, so they equal
those of the models. Empty defaults are left out, because absent and empty mean the same.

A structural schema cannot refer to itself, but an Expression does. It is unrolled for DEPTH
combinators, with only leaves at the bottom, which makes dozens of copies of the leaves. `kubectl
apply` stores the whole CRD in an annotation of limited size. Therefore only the first copy has
descriptions, and copies below the first combinator are lean: they contain types, required and known
fields, enums and defaults. The models check the limits of texts there, and the leaves in RARER and
RARE.

Source: kubernetes.io, Extend the Kubernetes API with CustomResourceDefinitions.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel

from kubenode.api.base import Model, Resource
from kubenode.api.duration import PATTERN as DURATION
from kubenode.api.duration import format_duration
from kubenode.api.freeform import scalar
from kubenode.api.meta import TOO_EARLY
from kubenode.api.readiness import RULES, UNOBSERVED
from kubenode.api.v1alpha1.leaves import COMBINATORS, DEPTH, Expression, FactLeaf
from kubenode.instants import FIRST_YEAR

Schema = dict[str, Any]

SHAPE = ("format", "enum")
LIMITS = (
    *("minItems", "maxItems", "minProperties", "maxProperties", "minLength", "maxLength"),
    *("pattern", "minimum", "maximum", "exclusiveMinimum"),
)
FULL_DEPTH = 1
"""Depth of combinators below which leaves have no limits in the CRD."""
RARE = ("host_event", "alert", "annotation", "taint", "probe", "absent")
"""Leaves that are not unrolled inside DEPTH combinators."""
RARER = ("alert", "annotation", "taint", "absent")
"""Leaves that are not unrolled in any lean copy."""
LIST_KEYS: Mapping[str, list[str]] = MappingProxyType(
    {"Condition": ["type"], "BreakerStatus": ["scope"]}
)
"""Keys of lists that are maps, by the model of their items."""
PATTERN_MESSAGES = MappingProxyType(
    {DURATION: "no duration: write a number and a unit, like 90s, 10m or 1h30m"}
)
"""Messages that the API server returns for common patterns, instead of the pattern."""


EXPRESSION = Expression.__name__


@dataclass(frozen=True, slots=True)
class View:
    """Level of detail of a schema at one position."""

    described: bool = True
    lean: bool = False
    defaults: bool = True
    depth: int = 0
    """Number of enclosing combinators."""
    deepest: int = DEPTH


def structural_schema(kind: type[Resource]) -> Schema:
    """Return the openAPIV3Schema of `kind`. Equal copies are the same dict, so that YAML can alias
    them."""
    return _Writer(kind).kind()


class _Writer:
    def __init__(self, kind: type[Resource]) -> None:
        self._kind = kind.__name__
        self._json = kind.model_json_schema(by_alias=True)
        self._models = {model.__name__: model for model in models_of(kind)}
        self._described: set[str] = set()
        self._copies: dict[tuple[str, View], Schema] = {}

    def kind(self) -> Schema:
        fields = self._json["properties"]
        properties = {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": self._field(fields["spec"], View()),
        }
        if "status" in fields:
            properties["status"] = self._field(fields["status"], View(defaults=False))
        if self._kind in RULES:
            properties["status"] |= {"default": dict(UNOBSERVED)}
        return {
            "description": plain(self._json["description"]),
            "type": "object",
            "required": ["spec"],
            "properties": properties,
        }

    def _field(self, given: Schema, view: View) -> Schema:
        """Return the schema of a field, item or value. `given` is its JSON schema from pydantic."""
        given = without_null(given)
        name = reference(given)
        if "deepest" in given:
            view = replace(view, deepest=given["deepest"], lean=True)
        if name in self._models:
            made = self._model(name, view)
        elif name:
            made = self._value({**self._json["$defs"][name], **given}, view)
        else:
            made = self._value(given, view)
        if given.get("emptyMeansAbsent"):
            made = _or_empty(made)
        if view.described and "description" in given:
            made = {"description": plain(given["description"])} | _less(made, "description")
        return made

    def _value(self, given: Schema, view: View) -> Schema:
        if "anyOf" in given:
            # Only a scalar has several types: all of them, or a whole number and a text.
            types = {option["type"] for option in given["anyOf"]}
            if "boolean" not in types:
                return {"x-kubernetes-int-or-string": True}
            return scalar(max(option.get("maxLength", 0) for option in given["anyOf"]))
        made = {k: v for k, v in given.items() if k in _BASE_KEYWORDS}
        if "const" in given:
            made["enum"] = [given["const"]]
        keywords = SHAPE if view.lean else (*SHAPE, *LIMITS)
        made |= {name: given[name] for name in keywords if name in given}
        if "exclusiveMinimum" in made:
            made |= {"minimum": made["exclusiveMinimum"], "exclusiveMinimum": True}
        if "items" in given:
            made["items"] = self._field(given["items"], view)
            if (keys := LIST_KEYS.get(reference(given["items"]))) is not None:
                made |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys}
        if isinstance(given.get("additionalProperties"), dict):
            made["additionalProperties"] = self._field(given["additionalProperties"], view)
        return made if view.lean else _add_messages(made)

    def _model(self, name: str, view: View) -> Schema:
        """Return the schema of a model. Equal copies are created once."""
        if name == EXPRESSION:
            view = replace(view, described=view.described and view.depth == 0)
            view = replace(view, lean=view.lean or view.depth > FULL_DEPTH)
        described = view.described and name not in self._described
        self._described.add(name)
        key = (name, replace(view, described=described))
        if described or key not in self._copies:
            self._copies[key] = self._object(name, key[1])
        return self._copies[key]

    def _object(self, name: str, view: View) -> Schema:
        model, given = self._models[name], self._json["$defs"][name]
        made: Schema = {}
        if view.described and "description" in given:
            made["description"] = plain(given["description"])
        made["type"] = "object"
        required = [f for f in given.get("required", ()) if f not in model.defaulted_in_python]
        if required:
            made["required"] = required
        made["properties"] = self._properties(model, given["properties"], view)
        if name == EXPRESSION and view.depth:
            made |= {"minProperties": 1, "maxProperties": 1}
        if view.lean or (name == EXPRESSION and view.depth):
            return made
        rules = [
            {"rule": r.rule, "message": r.message} | ({"fieldPath": f".{r.at}"} if r.at else {})
            for r in model.cel
        ]
        rules += _immutability(made["properties"], required, model.mutable)
        return made | ({"x-kubernetes-validations": rules} if rules else {})

    def _properties(self, model: type[Model], given: Schema, view: View) -> Schema:
        made: Schema = {}
        inside = replace(view, depth=view.depth + 1 if model is Expression else 0)
        for name, field in model.model_fields.items():
            wire = field.alias or name
            combines = model is Expression and name in COMBINATORS
            if combines and view.depth == view.deepest:
                continue
            if name in _unwritten(model, view):
                # A rule in CEL can name only what has a type; lean copies have no rules.
                typed = {} if view.lean else {"type": "object"}
                made[wire] = typed | {"x-kubernetes-preserve-unknown-fields": True}
                continue
            below = inside if combines or model is not Expression else replace(view, depth=0)
            if name == "absent" and view.depth:
                below = replace(below, lean=True)
            made[wire] = self._field(given[wire], below)
            default = field.get_default(call_default_factory=True)
            if view.defaults and not field.is_required() and _worth_writing(default):
                made[wire] = made[wire] | {"default": to_wire(default)}
        return made


def _unwritten(model: type[Model], view: View) -> tuple[str, ...]:
    """Return the fields of an Expression or leaf that only the model validates, not the CRD."""
    if model is FactLeaf:
        return () if view.described else ("window",)
    if model is not Expression or not view.lean:
        return ()
    return RARE if view.depth == DEPTH else RARER


_BASE_KEYWORDS = ("type", "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields")


def models_of(kind: type[BaseModel]) -> Iterator[type[Model]]:
    """Yield `kind` and every model below it."""
    visited: set[Any] = set()
    queue: list[Any] = [kind]
    while queue:
        annotation = queue.pop()
        queue += getattr(annotation, "__args__", ())
        if (
            isinstance(annotation, type)
            and issubclass(annotation, Model)
            and annotation not in visited
        ):
            visited.add(annotation)
            yield annotation
            queue += [field.annotation for field in annotation.model_fields.values()]


def reference(given: Schema) -> str:
    """Return the name of the definition that a JSON schema refers to; "" if it has no reference."""
    return str(given.get("$ref", "")).rsplit("/", 1)[-1]


def without_null(given: Schema) -> Schema:
    """Return `given` without the option null. The API server treats null and absent alike."""
    options = [o for o in given.get("anyOf", ()) if o.get("type") != "null"]
    return _less(given, "anyOf") | options[0] if len(options) == 1 else given


def plain(text: str) -> str:
    """Return a docstring as one line."""
    return " ".join(text.split())


def to_wire(value: Any) -> Any:
    """Return a default as JSON. A default model is {}: the API server fills in its fields."""
    match value:
        case BaseModel():
            full: dict[str, Any] = value.model_dump(mode="json", by_alias=True, exclude_unset=True)
            return full
        case Enum():
            return value.value
        case timedelta():
            return format_duration(value)
        case list():
            return [to_wire(item) for item in value]
        case _:
            return value


def _worth_writing(default: Any) -> bool:
    return default is not None and default not in ("", [], {})


def _less(given: Schema, key: str) -> Schema:
    return {k: v for k, v in given.items() if k != key}


def _add_messages(made: Schema) -> Schema:
    """Return `made` with a rule that has a readable message, in place of a common pattern or for
    the bounds of an instant."""
    if made.get("format") == "date-time":
        rule = {"rule": f"self.getFullYear() >= {FIRST_YEAR}", "message": TOO_EARLY}
        return made | {"x-kubernetes-validations": [rule]}
    message = PATTERN_MESSAGES.get(made.get("pattern", ""))
    if message is None:
        return made
    rule = {"rule": f"self.matches({json.dumps(made['pattern'])})", "message": message}
    return _less(made, "pattern") | {"x-kubernetes-validations": [rule]}


def _or_empty(made: Schema) -> Schema:
    """Return `made` so that it also accepts "" or {}, which the models treat as absent."""
    if "enum" in made:
        return made | {"enum": ["", *made["enum"]]}
    return _less(made, "x-kubernetes-validations") | {"maxProperties": 1}


def _immutability(
    fields: Schema, required: list[str], mutable: tuple[str, ...] | None
) -> list[dict[str, str]]:
    """Return a rule for each immutable field."""
    if mutable is None:
        return []
    rules = []
    for name in (name for name in fields if name not in mutable):
        same = f"self.{name} == oldSelf.{name}"
        if name not in required:
            same = f"has(self.{name}) == has(oldSelf.{name}) && (!has(self.{name}) || {same})"
        message = f"{name} stays as it was made: delete the object and make another"
        rules.append({"rule": same, "message": message})
    return rules
