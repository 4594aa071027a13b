"""JSON schemas (draft 2020-12) of all kinds for editors, generated from the models.

An editor with a YAML language server validates and completes a rule that begins with

    # yaml-language-server: $schema=noderemedier.json

The schema contains all checks of the models that a schema can express. It does not check that a
pattern is RE2, that a time zone exists, or that a rule compiles. `kubenode rules lint` does.
"""

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from pydantic import BaseModel, TypeAdapter

from kubenode.api.base import API_VERSION, Resource
from kubenode.api.duration import PATTERN as DURATION
from kubenode.api.duration import format_duration
from kubenode.api.structural import plain, without_null
from kubenode.api.v1alpha1 import KINDS

DRAFT = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Any]

SINGLE_FIELD: Schema = {"minProperties": 1, "maxProperties": 1}
MORE: Mapping[str, Schema] = {
    "Expression": SINGLE_FIELD,
    "Step": SINGLE_FIELD,
    "NodeSelection": {"oneOf": [{"required": ["all"]}, {"required": ["selector"]}]},
    "NodeRemedierSpec": {
        "oneOf": [{"required": ["ladder", "mode"]}, {"required": ["infer"]}],
    },
}
"""Schemas of checks that the validators of these models make beyond their fields."""
BARE = frozenset({"Step"})
"""Models with fields that may have no value: `- cordon:`."""
OPEN = frozenset({"ObjectMeta"})
"""Models that ignore unknown fields, which the API server writes."""
_SPAN = TypeAdapter(timedelta)


def schema(kind: type[Resource]) -> Schema:
    """Return the schema of `kind` for user input: camelCase, unknown fields denied."""
    made = of_model(kind, kind.resource.kind)
    made["required"] = ["apiVersion", "kind", *made["required"]]
    return {
        "$schema": DRAFT,
        "$id": f"https://{API_VERSION}/{kind.resource.kind.lower()}.json",
        "title": f"{kind.resource.kind} ({API_VERSION})",
    } | made


def of_model(model: type[BaseModel], name: str) -> Schema:
    """Return the schema of any model, with the models below it under `$defs`."""
    given = model.model_json_schema(by_alias=True)
    definitions = given.pop("$defs", {})
    made = _object(given, name)
    if definitions:
        made["$defs"] = {
            key: _object(subschema, key) for key, subschema in sorted(definitions.items())
        }
    return made


def _object(given: Schema, name: str) -> Schema:
    made = _value(given)
    made.pop("title", None)
    if name in OPEN:
        made.pop("additionalProperties", None)
    if name == "NodeRemedierSpec":
        made["required"] = [field for field in made["required"] if field != "mode"]
    fields = made.get("properties", {})
    for field, field_schema in fields.items():
        field_schema.pop("title", None)
        if name in BARE:
            fields[field] = {"anyOf": [field_schema, {"type": "null"}]}
    return made | dict(MORE.get(name, {}))


def _value(given: Schema) -> Schema:
    """Return `given` on one line, without the option null, which editors would suggest."""
    given = without_null(given)
    made: Schema = {}
    for key, value in given.items():
        match key, value:
            case (("emptyMeansAbsent" | "deepest" | "title"), _):
                continue
            case "x-kubernetes-int-or-string", _:
                made["type"] = ["integer", "string"]
            case "description", str():
                made[key] = plain(value)
            case "default", None:
                continue
            case "default", str() if _is_span(given):
                made[key] = format_duration(_SPAN.validate_python(value))
            case "format", "duration":
                continue  # of ISO 8601, as nobody writes them here
            case (("properties" | "$defs"), dict()):
                made[key] = {name: _value(subschema) for name, subschema in value.items()}
            case (("items" | "additionalProperties"), dict()):
                made[key] = _value(value)
            case "anyOf", list():
                made[key] = [_value(subschema) for subschema in value]
            case _:
                made[key] = value
    if given.get("emptyMeansAbsent"):
        description = made.pop("description", "")
        empty = {"enum": ["", {}]}
        made = ({"description": description} if description else {}) | {"anyOf": [made, empty]}
    return made


def _is_span(given: Schema) -> bool:
    return given.get("pattern") == DURATION or given.get("format") == "duration"


def text(made: Schema) -> str:
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n"


def files() -> dict[str, str]:
    """Return the content of each file by its name, one file per kind."""
    return {f"{kind.resource.kind.lower()}.json": text(schema(kind)) for kind in KINDS}
