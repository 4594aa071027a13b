"""The patch types keep their RFCs' words, and never change what is stored."""

import copy
from typing import Any

import pytest

from simulation.apiserver.errors import ApiError, Obj
from simulation.apiserver.patches import json_patch, merge, strategic


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        # RFC 7386, appendix A
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch_is_that_of_rfc_7386(target: Any, patch: Any, result: Any) -> None:
    before = copy.deepcopy(target)
    assert merge(target, patch) == result
    assert target == before


def test_parts_that_a_patch_does_not_touch_are_shared() -> None:
    target = {"status": {"big": [1, 2, 3]}, "metadata": {"labels": {"a": "1"}}}
    patched = merge(target, {"metadata": {"labels": {"a": "2"}}})
    assert patched["status"] is target["status"]


# ---- RFC 6902

DOC: Obj = {"foo": ["bar", "baz"], "a/b": 1, "m~n": 2, "deep": {"x": {"y": 1}}}


@pytest.mark.parametrize(
    ("operations", "result"),
    [
        ([{"op": "add", "path": "/foo/1", "value": "qux"}], {"foo": ["bar", "qux", "baz"]}),
        ([{"op": "add", "path": "/foo/-", "value": "qux"}], {"foo": ["bar", "baz", "qux"]}),
        ([{"op": "remove", "path": "/foo/0"}], {"foo": ["baz"]}),
        ([{"op": "replace", "path": "/foo/0", "value": 3}], {"foo": [3, "baz"]}),
        ([{"op": "replace", "path": "/a~1b", "value": 9}], {"a/b": 9}),
        ([{"op": "replace", "path": "/m~0n", "value": 9}], {"m~n": 9}),
        ([{"op": "move", "from": "/foo/0", "path": "/foo/1"}], {"foo": ["baz", "bar"]}),
        ([{"op": "copy", "from": "/foo/0", "path": "/foo/-"}], {"foo": ["bar", "baz", "bar"]}),
        ([{"op": "test", "path": "/foo/0", "value": "bar"}], {}),
        ([{"op": "add", "path": "/deep/x/z", "value": None}], {"deep": {"x": {"y": 1, "z": None}}}),
        (
            [
                {"op": "test", "path": "/deep/x/y", "value": 1},
                {"op": "replace", "path": "/deep/x/y", "value": 2},
            ],
            {"deep": {"x": {"y": 2}}},
        ),
    ],
)
def test_json_patch_is_that_of_rfc_6902(operations: list[Obj], result: Obj) -> None:
    before = copy.deepcopy(DOC)
    assert json_patch(DOC, operations) == {**DOC, **result}
    assert before == DOC


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/foo/0", "value": "other"},
        {"op": "test", "path": "/nothing", "value": 1},
        {"op": "remove", "path": "/nothing"},
        {"op": "replace", "path": "/foo/9", "value": 1},
        {"op": "add", "path": "/foo/9", "value": 1},
        {"op": "add", "path": "/no/such", "value": 1},
        {"op": "copy", "from": "/nothing", "path": "/x"},
        {"op": "no", "path": "/x"},
    ],
)
def test_a_json_patch_that_does_not_fit_is_invalid(operation: Obj) -> None:
    with pytest.raises(ApiError) as caught:
        json_patch(DOC, [operation])
    assert caught.value.code == 422


@pytest.mark.parametrize(
    "operations",
    [{}, ["x"], [{"op": "add"}], [{"op": "add", "path": "/x"}]],
)
def test_what_is_no_json_patch_is_a_bad_request(operations: Any) -> None:
    with pytest.raises(ApiError) as caught:
        json_patch(DOC, operations)
    assert caught.value.code == 400


def test_a_replaced_field_may_be_absent_as_on_a_real_server() -> None:
    operation = {"op": "replace", "path": "/nothing", "value": 1}
    assert json_patch(DOC, [operation]) == {**DOC, "nothing": 1}


# ---- strategic merge


def containers(*pairs: tuple[str, str]) -> Obj:
    return {"containers": [{"name": name, "image": image} for name, image in pairs]}


def test_lists_with_a_merge_key_merge_by_it() -> None:
    old = containers(("a", "1"), ("b", "1"))
    new = strategic(old, containers(("b", "2"), ("c", "1")), "Pod")
    assert new == containers(("a", "1"), ("b", "2"), ("c", "1"))
    assert old == containers(("a", "1"), ("b", "1"))


def test_an_item_is_deleted_by_directive() -> None:
    patch = {"containers": [{"name": "a", "$patch": "delete"}]}
    assert strategic(containers(("a", "1"), ("b", "1")), patch) == containers(("b", "1"))


def test_a_list_is_replaced_by_directive() -> None:
    patch = {"containers": [{"$patch": "replace"}, {"name": "z", "image": "1"}]}
    assert strategic(containers(("a", "1")), patch) == containers(("z", "1"))


def test_an_object_is_replaced_by_directive() -> None:
    patch = {"labels": {"$patch": "replace", "b": "2"}}
    assert strategic({"labels": {"a": "1"}}, patch) == {"labels": {"b": "2"}}


def test_conditions_of_a_node_merge_by_type() -> None:
    old = {"conditions": [{"type": "Ready", "status": "True", "reason": "r"}]}
    patch = {"conditions": [{"type": "Ready", "status": "False"}, {"type": "Gpu", "status": "1"}]}
    assert strategic(old, patch, "Node")["conditions"] == [
        {"type": "Ready", "status": "False", "reason": "r"},
        {"type": "Gpu", "status": "1"},
    ]


def test_taints_have_no_merge_key_and_are_replaced() -> None:
    old = {"taints": [{"key": "a", "effect": "NoSchedule"}]}
    patch = {"taints": [{"key": "b", "effect": "NoSchedule"}]}
    assert strategic(old, patch, "Node") == patch


def test_finalizers_are_a_set() -> None:
    assert strategic({"finalizers": ["a", "b"]}, {"finalizers": ["b", "c"]}) == {
        "finalizers": ["a", "b", "c"]
    }


def test_values_are_taken_from_a_set_by_directive() -> None:
    patch = {"$deleteFromPrimitiveList/finalizers": ["a"]}
    assert strategic({"finalizers": ["a", "b"]}, patch) == {"finalizers": ["b"]}


def test_order_is_set_by_directive() -> None:
    patch = {
        "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
        "containers": [{"name": "b", "image": "2"}],
    }
    merged = strategic(containers(("a", "1"), ("b", "1")), patch)
    assert merged == containers(("b", "2"), ("a", "1"))


def test_other_keys_go_by_directive() -> None:
    patch = {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}
    old = {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}
    assert strategic(old, patch) == {"strategy": {"type": "Recreate"}}


def test_ports_of_a_service_merge_by_port() -> None:
    old = {"ports": [{"port": 80, "name": "web"}]}
    patch = {"ports": [{"port": 80, "targetPort": 8080}]}
    assert strategic(old, patch, "Service")["ports"] == [
        {"port": 80, "name": "web", "targetPort": 8080}
    ]


def test_an_item_without_its_merge_key_is_a_bad_request() -> None:
    with pytest.raises(ApiError) as caught:
        strategic(containers(("a", "1")), {"containers": [{"image": "2"}]})
    assert caught.value.code == 400
