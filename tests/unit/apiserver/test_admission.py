"""Hooks refuse in the words of the API, whatever kind of ValueError they raise."""

from typing import Any

import pydantic
import pytest

from simulation.apiserver.admission import Admission
from simulation.apiserver.errors import ApiError, Obj
from simulation.apiserver.registry import Registry

NODES = Registry().named("nodes")


class Spec(pydantic.BaseModel):
    n: int


class Model(pydantic.BaseModel):
    spec: Spec


def refusal(*hooks: Any, obj: Obj) -> ApiError:
    with pytest.raises(ApiError) as caught:
        Admission({"nodes": hooks}).review(NODES, {"metadata": {"name": "n1"}, **obj}, None)
    return caught.value


def test_resource_without_hooks_passes() -> None:
    Admission().review(NODES, {"metadata": {}}, None)


def test_refusal_is_invalid_and_names_the_object() -> None:
    def hook(new: Obj, old: Obj | None) -> None:
        raise ValueError("too many")

    error = refusal(hook, obj={})
    assert (error.code, error.reason) == (422, "Invalid")
    assert error.message == 'Node "n1" is invalid: too many'


def test_pydantic_names_every_field() -> None:
    error = refusal(lambda new, old: Model.model_validate(new) and None, obj={"spec": {"n": "x"}})
    assert "spec.n: Invalid value: Input should be a valid integer" in error.message


def test_first_refusal_counts_and_status_errors_pass_as_they_are() -> None:
    def forbid(new: Obj, old: Obj | None) -> None:
        raise ApiError(403, "Forbidden", "not you")

    def never(new: Obj, old: Obj | None) -> None:
        raise AssertionError("asked after a refusal")

    assert refusal(forbid, never, obj={}).code == 403


def test_a_bug_in_a_hook_is_not_a_refusal() -> None:
    def broken(new: Obj, old: Obj | None) -> None:
        raise KeyError("spec")

    with pytest.raises(KeyError):
        Admission({"nodes": broken}).review(NODES, {"metadata": {}}, None)
