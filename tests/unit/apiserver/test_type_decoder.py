"""Decoding by type: what a built-in kind does to fields that it lacks, or that do not fit."""

from typing import Any

import pytest

from simulation.apiserver import builtin, type_decoder
from simulation.apiserver.errors import Obj
from simulation.apiserver.registry import Registry

POD = builtin.shape("core.v1.Pod")


def test_every_built_in_kind_has_its_fields() -> None:
    for resource in Registry():
        assert "metadata" in type_decoder.shape_of(resource).fields, resource.qualified


def test_unknown_fields_are_dropped_and_named() -> None:
    value: Obj = {"spec": {"containers": [{"name": "c", "imagee": "x"}]}, "zz": 1}
    unknown: list[str] = []
    fitted = type_decoder.fit(POD, value, None, unknown)
    assert fitted == {"spec": {"containers": [{"name": "c"}]}}
    assert sorted(unknown) == ["spec.containers[0].imagee", "zz"]
    assert value["spec"]["containers"][0]["imagee"] == "x", "what was given is not changed"


def test_what_fits_is_given_back_as_it_is() -> None:
    value = {"spec": {"containers": [{"name": "c", "image": "x"}], "hostNetwork": True}}
    assert type_decoder.fit(POD, value, None, []) is value


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"hostNetwork": "yes"}, "spec.hostNetwork"),
        ({"activeDeadlineSeconds": True}, "spec.activeDeadlineSeconds"),
        ({"containers": {}}, "spec.containers"),
        ({"containers": ["c"]}, r"spec.containers\[0\]"),
        ({"nodeSelector": {"k": 1}}, "spec.nodeSelector.k"),
        ({"overhead": {"cpu": "much"}}, "spec.overhead.cpu"),
    ],
)
def test_value_of_another_type_is_named(spec: Obj, path: str) -> None:
    with pytest.raises(type_decoder.Mistyped, match=path):
        type_decoder.fit(POD, {"spec": spec}, None, [])


@pytest.mark.parametrize("quantity", ["1", "1.5", "500m", "1Gi", "1e3", "-1k", 2, 0.5])
def test_quantities_are_texts_and_numbers(quantity: Any) -> None:
    value = {"spec": {"overhead": {"cpu": quantity}}}
    assert type_decoder.fit(POD, value, None, []) is value


def test_what_was_stored_is_not_looked_at_again() -> None:
    stored: Obj = {"spec": {"unknown": 1}}
    unknown: list[str] = []
    assert (
        type_decoder.fit(POD, {**stored, "status": {}}, stored, unknown)["spec"] is stored["spec"]
    )
    assert unknown == []
