"""Lines for people: field, value, remedy, and a position where one is known."""

from typing import Any

import pytest
from pydantic import ValidationError
from support.api_objects import GOOD, changed

from kubenode.api.problems import Path, problems
from kubenode.api.v1alpha1 import Ask, NodeRemedier


def said(data: dict[str, Any], **more: Any) -> list[str]:
    with pytest.raises(ValidationError) as caught:
        NodeRemedier.from_user(data)
    return problems(caught.value, **more)


def test_unknown_field_comes_with_the_nearest_name() -> None:
    assert said(changed(GOOD["remedier"], "spec.startUpGrace", "1m")) == [
        'spec.startUpGrace: "1m" is an unknown field: did you mean startupGrace?'
    ]


def test_field_like_no_other_comes_with_all_names() -> None:
    (line,) = said(changed(GOOD["remedier"], "spec.relapse.xyz", 1))
    assert line == "spec.relapse.xyz: 1 is an unknown field: leave it out, known are within"


def test_long_values_are_cut() -> None:
    (line,) = said(changed(GOOD["remedier"], "spec.mode", "x" * 10_000))
    assert len(line) < 200


def test_position_stands_in_front_where_the_caller_knows_it() -> None:
    lines: dict[Path, int] = {("spec", "groupWait"): 14}

    def where(path: Path) -> str:
        return f"rule.yaml:{lines[path]}" if path in lines else ""

    (line,) = said(changed(GOOD["remedier"], "spec.groupWait", "10"), where=where)
    assert line.startswith("rule.yaml:14: spec.groupWait: '10' is no duration")


def test_yamls_bare_word_is_explained() -> None:
    bad = changed(GOOD["remedier"], "spec.when.all.0.condition.status", True)
    assert said(bad) == [
        "spec.when.all[0].condition.status: true is not known: write True, False or Unknown"
        " (YAML reads a bare word or number: put it in quotes)"
    ]


def test_several_problems_are_all_told() -> None:
    bad = changed(changed(GOOD["remedier"], "spec.when", {}), "spec.priority", 2000)
    assert [line.split(":")[0] for line in said(bad)] == ["spec.priority", "spec.when"]


def test_other_models_than_kinds_are_told_of_too() -> None:
    with pytest.raises(ValidationError) as caught:
        Ask.model_validate({"operation": "Repair", "class": "Node", "node": "n1", "holdr": {}})
    assert problems(caught.value, Ask) == [
        "holder: required and missing: add it",
        "holdr: {} is an unknown field: did you mean holder?",
    ]
