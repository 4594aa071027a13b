"""The library as people meet it: read from files, chosen by pack, known again when installed."""

from pathlib import Path
from typing import Any

import pytest
from support.lint_cases import RESTART, inferring, ladder, named

from kubenode.api.v1alpha1 import Mode, NodeRemedier
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.library import library, packs, rules_from
from kubenode.cli.options import Listing
from kubenode.cli.rules_install import manifest, warnings
from kubenode.cli.rules_list import of_library
from kubenode.cli.rules_packs import DIGEST, PACK, changed, chosen, digest
from kubenode.cli.tables import table

RULE = """\
apiVersion: kubenode.io/v1alpha1
kind: NodeRemedier
metadata: {name: NAME}
spec:
  mode: Enforce
  nodes: {all: true}
  when: {condition: {type: KernelDeadlock}}
  ladder: [{name: tell, steps: [{notify: {}}]}]
"""


def served(rule: NodeRemedier, **changes: Any) -> NodeRemedier:
    """As the API server gives it back: every default filled in, and changes by somebody."""
    data = rule.model_dump(mode="json", by_alias=True, exclude_none=True)
    data["spec"] |= changes
    marks = manifest(rule, "kernel", Mode.DRY_RUN)["metadata"]["annotations"]
    data["metadata"] = {"name": rule.metadata.name, "annotations": marks, "uid": "u1"}
    return NodeRemedier.model_validate(data)


# -- what an installed rule carries -----------------------------------------------------------


def test_defaults_and_mode_are_no_change_by_a_person() -> None:
    rule = named("r")
    assert changed(served(rule)) is False
    assert changed(served(rule, mode="Off")) is False
    assert changed(served(rule, cooldown="30m")) is False  # what it is without being written


@pytest.mark.parametrize("change", [{"priority": 501}, {"cooldown": "31m"}, {"notify": ["oncall"]}])
def test_anything_else_is_a_change_by_a_person(change: dict[str, Any]) -> None:
    assert changed(served(named("r"), **change)) is True


def test_a_rule_without_our_mark_is_not_of_the_library() -> None:
    assert changed(named("r")) is None


def test_the_digest_tells_rules_apart() -> None:
    assert digest(named("a")) == digest(named("b"))
    assert digest(named("a")) != digest(named("a", ladder=ladder(RESTART, timeout="14m")))


def test_a_rule_is_written_with_its_marks_and_only_what_its_author_wrote() -> None:
    body = manifest(named("r"), "kernel", Mode.APPROVE)
    assert set(body["metadata"]["annotations"]) == {PACK, DIGEST}
    assert body["spec"]["mode"] == "Approve"
    assert "cooldown" not in body["spec"]
    NodeRemedier.from_user(body)


def test_a_rule_that_infers_acts_on_nothing_and_stays_on() -> None:
    rule = inferring("r", "my.fact", {"condition": {"type": "KernelDeadlock"}})
    assert manifest(rule, "p", Mode.DRY_RUN)["spec"]["mode"] == "Enforce"
    assert manifest(rule, "p", Mode.OFF)["spec"]["mode"] == "Off"


def test_steps_that_are_not_there_yet_and_facts_of_other_packs_are_told() -> None:
    rule = named("r", ladder=ladder({"replace": {"surge": "First"}}))
    for mode in (Mode.ENFORCE, Mode.APPROVE):
        assert any("p/r will be refused" in one for one in warnings({"p": [rule]}, mode))
    (told,) = warnings({"p": [rule]}, Mode.DRY_RUN)
    assert told.startswith("p/r cannot act yet, in Enforce and Approve it will be refused: rung ")
    inferred = next(r for r in library() if r.spec.infer is not None)
    assert inferred.spec.infer is not None
    asking = named("r", when={"fact": {"name": inferred.spec.infer.fact}})
    assert any("install it too" in one for one in warnings({"p": [asking]}))


# -- choosing --------------------------------------------------------------------------------


def test_packs_single_rules_and_all_can_be_chosen() -> None:
    there = packs()
    pack = next(name for name in there if name)
    first = there[pack][0].metadata.name
    assert chosen([pack]) == {pack: there[pack]}
    assert [r.metadata.name for r in chosen([f"{pack}/{first}"])[pack]] == [first]
    assert sum(map(len, chosen(["all"]).values())) == len(library())


@pytest.mark.parametrize("wanted", ["kernle", "kernel/no-such-rule", ""])
def test_what_is_not_there_is_a_mistake_of_usage(wanted: str) -> None:
    with pytest.raises(Refusal, match="is not in the library") as refused:
        chosen([wanted])
    assert refused.value.code is Exit.USAGE


def test_listing_a_pack_that_is_not_there_is_refused() -> None:
    with pytest.raises(Refusal, match="did you mean kernel"):
        of_library("kernle", Listing.TABLE)


# -- people's files --------------------------------------------------------------------------


def test_rules_of_people_are_read_without_their_tests_and_other_kinds(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(RULE.replace("NAME", "a") + "---\nkind: DefenderPolicy\n")
    (tmp_path / "a.test.yaml").write_text("tests: []\n")
    assert [rule.metadata.name for rule in rules_from([tmp_path])] == ["a"]


def test_without_files_it_is_the_library() -> None:
    assert len(rules_from([])) == len(library())


@pytest.mark.parametrize(
    ("text", "told", "code"),
    [
        (RULE.replace("NAME", "a").replace("Enforce", "Force"), r":5:3: spec\.mode", 1),
        (RULE.replace("{name: NAME}", "{}"), r":3:1: metadata\.name: missing", 1),
        (2 * (RULE.replace("NAME", "a") + "---\n"), r":12:12: .*'a' is taken", 1),
        ("kind: Other\n", "no NodeRemedier in", 2),
        ("a: [", r":1:5: not valid YAML", 2),
    ],
)
def test_files_that_are_wrong_are_refused_with_the_place(
    tmp_path: Path, text: str, told: str, code: int
) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(text)
    with pytest.raises(Refusal, match=told) as refused:
        rules_from([file])
    assert refused.value.code == code


def test_a_table_has_columns_as_wide_as_their_longest_cell() -> None:
    assert table(["A", "LONG"], [["x", ""], ["yyy", 0]]) == ["A    LONG", "x    -", "yyy  0"]
