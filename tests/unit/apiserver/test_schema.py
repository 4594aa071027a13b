"""Structural schemas: unknown fields go, defaults come, the rest is checked."""

from typing import Any

import pytest

from kubenode.api.crd import definition
from kubenode.api.v1alpha1 import KINDS
from simulation.apiserver.errors import Obj
from simulation.apiserver.schema import Schema


def of(**properties: Obj) -> Schema:
    return Schema({"type": "object", "properties": properties})


TEXT: Obj = {"type": "string"}
PAIR: Obj = {"type": "object", "properties": {"type": TEXT, "status": TEXT}, "required": ["type"]}


def messages(schema: Schema, value: Any) -> list[str]:
    return [f"{cause.field}: {cause.message}" for cause in schema.validate(value)]


def test_unknown_fields_are_pruned_at_every_depth_and_named() -> None:
    schema = of(spec={"type": "object", "properties": {"items": {"type": "array", "items": PAIR}}})
    value = {"spec": {"items": [{"type": "a", "x": 1}], "y": 2}, "z": 3}
    dropped: list[str] = []
    assert schema.prune(value, "", dropped) == {"spec": {"items": [{"type": "a"}]}}
    assert sorted(dropped) == ["spec.items[0].x", "spec.y", "z"]
    assert value["z"] == 3


def test_nothing_to_prune_or_fill_gives_the_same_object() -> None:
    schema = of(a={"type": "array", "items": PAIR}, m={"type": "object", "properties": {"x": TEXT}})
    value = {"a": [{"type": "t"}], "m": {"x": "1"}}
    assert schema.prune(value) is value
    assert schema.fill(value) is value


def test_unknown_fields_stay_where_the_schema_preserves_them() -> None:
    schema = of(
        free={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        labels={"type": "object", "additionalProperties": TEXT},
    )
    value = {"free": {"x": {"y": 1}}, "labels": {"a": "1"}}
    assert schema.prune(value) is value


def test_defaults_fill_absent_fields_at_every_depth_but_make_no_parents() -> None:
    deep = {"type": "object", "properties": {"x": {"type": "integer", "default": 7}}}
    schema = of(b={"type": "string", "default": "d"}, deep=deep)
    assert schema.fill({}) == {"b": "d"}
    assert schema.fill({"deep": {}}) == {"b": "d", "deep": {"x": 7}}
    assert schema.fill({"b": "mine", "deep": {"x": 1}}) == {"b": "mine", "deep": {"x": 1}}


def test_a_default_replaces_null_unless_null_is_allowed() -> None:
    schema = of(
        a={"type": "string", "default": "d"}, b={"type": "string", "default": "d", "nullable": True}
    )
    assert schema.fill({"a": None, "b": None}) == {"a": "d", "b": None}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "integer"}, [1, 0, 2.0], ["1", True, 1.5, None, {}]),
        ({"type": "number"}, [1, 1.5], ["1", False]),
        ({"type": "string"}, ["", "x"], [1, None, []]),
        ({"type": "boolean"}, [True, False], [0, "true"]),
        ({"type": "string", "nullable": True}, [None, "x"], [1]),
        ({"x-kubernetes-int-or-string": True}, [1, "5%"], [1.5, True, []]),
        ({"type": "integer", "minimum": 0, "maximum": 10}, [0, 10], [-1, 11]),
        ({"type": "integer", "minimum": 0, "exclusiveMinimum": True}, [1], [0]),
        ({"type": "integer", "multipleOf": 5}, [0, 10], [3]),
        ({"type": "string", "enum": ["On", "Off"]}, ["On"], ["on"]),
        ({"type": "string", "pattern": "^[a-z]+$"}, ["abc"], ["ABC", ""]),
        ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "abc"], ["a", "abcd"]),
        ({"type": "array", "items": TEXT, "minItems": 1, "maxItems": 2}, [["a"]], [[], ["a"] * 3]),
        ({"type": "array", "items": TEXT}, [[], ["a"]], [[1], {}]),
        (
            {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
            [["a", "b"]],
            [["a", "a"]],
        ),
        (
            {
                "type": "array",
                "items": PAIR,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            },
            [[{"type": "a"}, {"type": "b"}]],
            [[{"type": "a"}, {"type": "a", "status": "x"}]],
        ),
        ({"type": "object", "additionalProperties": TEXT, "maxProperties": 1}, [{"a": "1"}],
         [{"a": 1}, {"a": "1", "b": "2"}]),
        (PAIR, [{"type": "a"}], [{"status": "b"}, {}]),
        ({"type": "string", "format": "date-time"}, ["2026-01-02T03:04:05Z"], ["yesterday"]),
        ({"type": "object", "properties": {"a": TEXT, "b": TEXT},
          "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
         [{"a": ""}, {"b": ""}], [{}, {"a": "", "b": ""}]),
        ({"type": "string", "anyOf": [{"enum": ["a"]}, {"pattern": "^b"}]}, ["a", "bc"], ["c"]),
        ({"type": "string", "allOf": [{"minLength": 2}]}, ["ab"], ["a"]),
        ({"type": "string", "not": {"enum": ["x"]}}, ["y"], ["x"]),
    ],
)  # fmt: skip
def test_values_are_checked(schema: Obj, good: list[Any], bad: list[Any]) -> None:
    compiled = of(v=schema)
    assert [value for value in good if messages(compiled, {"v": value})] == []
    assert [value for value in bad if not messages(compiled, {"v": value})] == []


def test_a_refusal_names_the_field_and_the_value() -> None:
    schema = of(spec={"type": "object", "properties": {"a": {"type": "integer", "maximum": 10}}})
    (message,) = messages(schema, {"spec": {"a": 99}})
    assert message.startswith("spec.a: Invalid value: 99")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_our_own_crds_compile(kind: Any) -> None:
    for version in definition(kind)["spec"]["versions"]:
        Schema(version["schema"]["openAPIV3Schema"])
