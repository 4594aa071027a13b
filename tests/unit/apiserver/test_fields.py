"""Sets of fields, and server-side apply on values: the parts that need no server."""

from typing import Any

import pytest

from simulation.apiserver import fields
from simulation.apiserver.errors import Obj
from simulation.apiserver.merge import merge, with_parents, without
from simulation.apiserver.shape import Shape, of_schema

TEXT = {"type": "string"}
PAIR = {"type": "object", "properties": {"type": TEXT, "port": {"type": "integer", "default": 80}}}
SHAPE: Shape = of_schema(
    {
        "type": "object",
        "properties": {
            "text": TEXT,
            "map": {"type": "object", "additionalProperties": TEXT},
            "whole": {"type": "object", "additionalProperties": TEXT}
            | {"x-kubernetes-map-type": "atomic"},
            "list": {"type": "array", "items": TEXT},
            "set": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
            "keyed": {
                "type": "array",
                "items": PAIR,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type", "port"],
            },
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "deep": {"type": "object", "properties": {"a": TEXT, "b": TEXT}},
        },
    }
)
ITEM_A = 'k:{"port":80,"type":"a"}'


@pytest.mark.parametrize(
    ("value", "owned"),
    [
        ({"text": "x"}, {"f:text": {}}),
        ({"map": {"k": "v"}}, {"f:map": {"f:k": {}}}),
        ({"map": {}}, {"f:map": {}}),
        ({"whole": {"k": "v"}}, {"f:whole": {}}),
        ({"list": ["a"]}, {"f:list": {}}),
        ({"set": ["a"]}, {"f:set": {'v:"a"': {}}}),
        ({"keyed": [{"type": "a"}]}, {"f:keyed": {ITEM_A: {".": {}, "f:type": {}}}}),
        ({"free": {"x": {"y": [1]}}}, {"f:free": {"f:x": {".": {}, "f:y": {}}}}),
        ({"deep": {"a": "1"}}, {"f:deep": {"f:a": {}}}),
    ],
)
def test_a_configuration_owns_its_fields(value: Obj, owned: Obj) -> None:
    found = fields.of(value, SHAPE)
    assert fields.encode(found) == owned
    assert fields.decode(owned) == found


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"other": 1}, r"\.other: field not declared in schema"),
        ({"text": 1}, r"\.text: expected string, got 1"),
        ({"text": True}, r"\.text: expected string"),
        ({"list": "a"}, r"\.list: expected array"),
        ({"set": ["a", "a"]}, r"\.set: duplicate entries for key"),
        ({"keyed": [{"type": "a"}, {"type": "a", "port": 80}]}, r'\[port=80,type="a"\]'),
    ],
)
def test_what_the_kind_cannot_hold_is_named_by_its_place(value: Obj, why: str) -> None:
    with pytest.raises(fields.Undeclared, match=why):
        fields.of(value, SHAPE)


def test_a_list_without_types_is_of_one_owner() -> None:
    changes = fields.compare({"list": ["a"]}, {"list": ["b"]}, SHAPE)
    assert (changes.modified, changes.added, changes.removed) == ({("f:list",)}, set(), set())


def test_changes_are_found_item_by_item() -> None:
    old = {"keyed": [{"type": "a"}, {"type": "b"}], "set": ["x", "y"], "deep": {"a": "1"}}
    new = {"keyed": [{"type": "b"}, {"type": "c"}], "set": ["y"], "deep": {"a": "2", "b": "1"}}
    changes = fields.compare(old, new, SHAPE)
    assert changes.modified == {("f:deep", "f:a")}
    assert {path[:2] for path in changes.added} == {
        ("f:deep", "f:b"),
        ("f:keyed", 'k:{"port":80,"type":"c"}'),
    }
    assert {path[:2] for path in changes.removed} == {
        ("f:keyed", ITEM_A),
        ("f:set", 'v:"x"'),
    }


@pytest.mark.parametrize(
    ("live", "config", "merged"),
    [
        (["a", "b"], ["c"], ["a", "b", "c"]),
        (["a", "b", "c"], ["c", "a"], ["b", "c", "a"]),
        (["a"], ["b", "a"], ["b", "a"]),
        ([], ["b", "a"], ["b", "a"]),
        (["a", "b"], [], ["a", "b"]),
    ],
)
def test_lists_are_joined_in_the_order_of_the_configuration(
    live: list[str], config: list[str], merged: list[str]
) -> None:
    assert merge({"set": live}, {"set": config}, SHAPE) == {"set": merged}


def test_what_is_owned_as_one_is_replaced() -> None:
    live: Obj = {"whole": {"a": "1"}, "list": ["a"], "map": {"a": "1"}}
    config: Obj = {"whole": {"b": "1"}, "list": ["b"], "map": {"b": "1"}}
    merged = {"whole": {"b": "1"}, "list": ["b"], "map": {"a": "1", "b": "1"}}
    assert merge(live, config, SHAPE) == merged
    assert live == {"whole": {"a": "1"}, "list": ["a"], "map": {"a": "1"}}, "it is in the store"


def test_fields_are_taken_out_and_their_neighbours_stay() -> None:
    value = {"deep": {"a": "1", "b": "2"}, "set": ["x", "y"], "text": "t"}
    gone = {("f:deep", "f:a"), ("f:set", 'v:"x"'), ("f:text",)}
    assert without(value, gone, SHAPE) == {"deep": {"b": "2"}, "set": ["y"]}


def test_who_owns_a_part_holds_on_to_the_declared_fields_above_it() -> None:
    held = with_parents({("f:deep", "f:a"), ("f:free", "f:x", "f:y")}, SHAPE)
    assert ("f:deep",) in held
    assert ("f:free",) in held
    assert ("f:free", "f:x") not in held, "a key of a map is nobody's by itself"


def test_paths_are_shown_to_people() -> None:
    path: Any = ("f:spec", "f:list", 'k:{"name":"a"}', "f:set", 'v:"x"')
    assert fields.show(path) == '.spec.list[name="a"].set[="x"]'
