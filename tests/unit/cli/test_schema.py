"""Schemas for editors: valid themselves, and of one mind with the models."""

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from support.lint_cases import CASES, named

from devtools import rules_reference as reference
from devtools import schemas
from kubenode.api import jsonschema
from kubenode.api.v1alpha1 import KINDS, DefenderPolicy, NodeRemedier, Resource, default_policy
from kubenode.cli.documents import read
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.library import FOLDER, library
from kubenode.cli.schema import schema
from simulation.replay.schema import of_rule_tests

RULE = Draft202012Validator(jsonschema.schema(NodeRemedier))


def written(rule: NodeRemedier) -> dict[str, Any]:
    data: dict[str, Any] = rule.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude_unset=True
    )
    return {"apiVersion": "kubenode.io/v1alpha1", "kind": "NodeRemedier"} | data


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.resource.kind)
@pytest.mark.exhaustive
def test_a_schema_is_valid_and_of_the_draft_that_it_names(kind: type[Resource]) -> None:
    made = jsonschema.schema(kind)
    assert made["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(made)


def test_rules_that_the_models_take_fit() -> None:
    many = [*library()[::10], *(named("r", **case.changes) for case in CASES)]
    for rule in many:
        assert [e.message for e in RULE.iter_errors(written(rule))] == []
    assert [e.message for e in RULE.iter_errors(library()[0].to_dict())] == []


def test_the_default_policy_fits() -> None:
    validator = Draft202012Validator(jsonschema.schema(DefenderPolicy))
    assert [e.message for e in validator.iter_errors(default_policy().to_dict())] == []


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (("spec", "coolDown"), "5m"),
        (("spec", "cooldown"), "5 minutes"),
        (("spec", "mode"), "Force"),
        (("spec", "priority"), 1001),
        (("spec", "when"), {}),
        (("spec", "when"), {"condition": {"type": "A"}, "event": {"reason": "B"}}),
        (("spec", "when"), {"all": [{"condition": {"type": "A", "status": "Maybe"}}]}),
        (("spec", "nodes"), {}),
        (("spec", "nodes"), {"all": True, "selector": {"matchLabels": {"a": "b"}}}),
        (("spec", "infer"), {"fact": "my.fact"}),
        (("spec", "ladder"), [{"name": "a", "steps": [{"nottify": {}}]}]),
        (("kind",), "NodeRemediers"),
    ],
)
def test_mistakes_that_the_models_refuse_do_not_fit(at: tuple[str, ...], value: Any) -> None:
    data = json.loads(json.dumps(written(named("r"))))
    place = data
    for key in at[:-1]:
        place = place[key]
    place[at[-1]] = value
    assert not RULE.is_valid(data)


@pytest.mark.parametrize(
    "change",
    [
        {"ladder": [{"name": "a", "disruption": "", "steps": [{"cordon": None}]}]},
        {"ladder": [{"name": "a", "steps": [{"cordon": {}}], "verify": {"cleared": {}}}]},
    ],
)
def test_what_the_models_read_as_absent_fits(change: dict[str, Any]) -> None:
    data = written(named("r"))
    data["spec"] |= change
    assert [e.message for e in RULE.iter_errors(data)] == []
    NodeRemedier.from_user(data)


def test_a_rule_that_infers_needs_no_mode() -> None:
    data = written(named("r"))
    kept = {k: v for k, v in data["spec"].items() if k in ("nodes", "when")}
    data["spec"] = kept | {"infer": {"fact": "my.fact"}}
    assert [e.message for e in RULE.iter_errors(data)] == []


def test_the_command_prints_a_schema_and_how_to_use_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert schema("noderemedier") is Exit.FINE
    told = capsys.readouterr()
    assert json.loads(told.out) == jsonschema.schema(NodeRemedier)
    assert "# yaml-language-server: $schema=noderemedier.json" in told.err


def test_an_unknown_kind_is_told_what_there_is() -> None:
    with pytest.raises(Refusal, match="did you mean NodeRemedier") as refused:
        schema("NodeRemedy")
    assert refused.value.code is Exit.USAGE


def test_rule_tests_of_the_library_fit_their_schema() -> None:
    made = of_rule_tests()
    Draft202012Validator.check_schema(made)
    validator = Draft202012Validator(made)
    for path in sorted(FOLDER.rglob("*.test.yaml"))[::10]:
        for document in read(path):
            assert [f"{path}: {e.message}" for e in validator.iter_errors(document.data)] == []


def test_a_mistake_in_a_rule_test_does_not_fit() -> None:
    validator = Draft202012Validator(of_rule_tests())
    fine: dict[str, Any] = {"rules": ["a"], "tests": [{"name": "n", "expect": [{"at": "1m"}]}]}
    assert validator.is_valid(fine)
    assert not validator.is_valid({"rules": ["a"], "tests": [{"name": "n", "expects": []}]})
    assert not validator.is_valid(fine | {"test": []})


@pytest.mark.parametrize("module", [schemas, reference])
def test_what_is_written_from_the_code_is_current(module: Any) -> None:
    assert module.main(["--check"]) == 0
