"""Which places of a stored object the API server accepts without knowing their fields.

A value of unbounded depth or size is a means to stop a reader (docs/security.md). Every such place
is listed here with the reason why it is acceptable.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from kubenode.api.base import Resource
from kubenode.api.structural import structural_schema
from kubenode.api.v1alpha1 import KINDS
from kubenode.api.v1alpha1.machineclass import CONFIG_DEPTH

UNKNOWN = "x-kubernetes-preserve-unknown-fields"
RULE_LEAVES = {"hostEvent", "alert", "annotation", "taint", "probe", "absent", "window"}
"""Leaves of a rule that the CRD does not describe inside combinators. The reason: the CRDs of
NodeRemedier and RemedyOperationJob are as large as `kubectl apply` can store, and a structural
schema cannot refer to a part of itself. No agent writes there. The registry's webhook checks rules,
and the informers survive what it is not asked about (tests/integration/runtime/test_informer.py).
"""
RELEASED = {("Release", "spec")}
"""Spec of an object of a release's payload. The reason: it has any of four kinds, whose rules are
too deep to be unrolled once more. Captain validates each object by the model of its kind before it
applies one.
"""
OPEN = RELEASED | {
    (kind, leaf) for kind in ("NodeRemedier", "RemedyOperationJob") for leaf in RULE_LEAVES
}


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, below in schema.get("properties", {}).items():
        yield from nodes(below, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from nodes(schema[name], f"{path}[]")


def is_scalar(schema: dict[str, Any]) -> bool:
    """Whether the schema accepts no object, no array and no text without limit."""
    bounds = {name: schema.get(name) for name in ("maxItems", "maxProperties")}
    return bounds == {"maxItems": 0, "maxProperties": 0} and "maxLength" in schema


def depth(schema: dict[str, Any]) -> float:
    """Levels of objects and arrays that an untyped value may have; infinite without a bound."""
    if is_scalar(schema):
        return 0
    parts = [schema.get("items"), schema.get("additionalProperties")]
    if not all(isinstance(part, dict) for part in parts):
        return float("inf")
    if not {"maxItems", "maxProperties", "maxLength"} <= schema.keys():
        return float("inf")
    return 1 + max(depth(part) for part in parts if part is not None)


@pytest.mark.exhaustive
def test_every_open_place_of_a_crd_is_listed_with_its_reason() -> None:
    found = {
        (kind.__name__, path.rpartition(".")[2])
        for kind in KINDS
        for path, node in nodes(structural_schema(kind))
        if node.get(UNKNOWN) and depth(node) == float("inf")
    }
    assert found == OPEN


@pytest.mark.exhaustive
def test_no_status_has_an_open_place() -> None:
    for kind in KINDS:
        for path, node in nodes(structural_schema(kind)):
            if node.get(UNKNOWN) and depth(node) == float("inf"):
                assert path.startswith(".spec."), path


def test_config_of_a_machine_class_has_a_depth() -> None:
    (kind,) = (kind for kind in KINDS if kind.__name__ == "MachineClass")
    config = structural_schema(kind)["properties"]["spec"]["properties"]["config"]
    assert depth(config["additionalProperties"]) == CONFIG_DEPTH
    assert config["maxProperties"]


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if "status" in kind.model_fields], ids=lambda k: k.__name__
)
def test_every_text_list_and_map_of_a_status_has_a_bound(kind: type[Resource]) -> None:
    for path, node in nodes(structural_schema(kind)["properties"]["status"]):
        match node.get("type"):
            case "string":
                bounds = {"maxLength", "enum", "format", "x-kubernetes-validations"}
                assert bounds & node.keys(), path
            case "array":
                assert "maxItems" in node, path
            case "object" if "additionalProperties" in node:
                assert "maxProperties" in node, path
            case None:
                assert node.get("x-kubernetes-int-or-string") or is_scalar(node), path
            case _:
                pass
