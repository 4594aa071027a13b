"""`kubenode rules lint`: good rules pass, bad ones are told line by line."""

from pathlib import Path

import pytest
from support.command import kubenode

pytestmark = pytest.mark.integration

GOOD = """\
apiVersion: kubenode.io/v1alpha1
kind: NodeRemedier
metadata: {name: good}
spec:
  mode: Enforce
  nodes: {all: true}
  when: {condition: {type: KernelDeadlock, for: 30s}}
  ladder:
    - name: tell
      steps: [{notify: {}}]
"""


def rule(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "rule.yaml"
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("before", "after", "place", "words"),
    [
        ("{all: true}", "{selector: {}}", "6:11", ["spec.nodes.selector", "all: true"]),
        ("  nodes: {all: true}\n", "", "4:1", ["spec.nodes", "missing"]),
        ("for: 30s", "for: 30", "7:44", ["spec.when.condition.for", "30"]),
        ("for: 30s", "for: soon", "7:44", ["spec.when.condition.for", "soon"]),
        ("{condition: {type: KernelDeadlock, for: 30s}}", "{}", "7:3", ["spec.when"]),
        ("  mode: Enforce", "  mode: Enforce\n  coolDown: 5m", "6:3", ["coolDown", "cooldown"]),
        ("mode: Enforce", "mode: Force", "5:3", ["spec.mode", "Enforce"]),
        ("{notify: {}}", "{nottify: {}}", "10:16", ["nottify", "notify"]),
        ("kind: NodeRemedier", "kind: NodeRepair", "2:1", ["kind", "NodeRemedier"]),
        ("v1alpha1", "v1", "1:1", ["apiVersion", "kubenode.io/v1alpha1"]),
    ],
)
def test_a_problem_is_told_with_place_field_and_remedy(
    tmp_path: Path, before: str, after: str, place: str, words: list[str]
) -> None:
    assert before in GOOD
    file = rule(tmp_path, GOOD.replace(before, after))
    result = kubenode("rules", "lint", file)
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    told = [line for line in result.stdout.splitlines() if line.startswith(f"{file}:{place}: ")]
    assert told, result.stdout
    assert told[0].startswith(f"{file}:{place}: error: ")
    for word in words:
        assert word in told[0]


def test_what_only_the_compiler_finds_has_its_place_too(tmp_path: Path) -> None:
    text = GOOD.replace(
        "{condition: {type: KernelDeadlock, for: 30s}}",
        "\n    all:\n      - fact: {name: node.nope, above: 3}",
    )
    file = rule(tmp_path, text)
    result = kubenode("rules", "lint", file)
    assert result.returncode == 1
    assert result.stdout.startswith(f"{file}:9:16: error: spec.when.all[0].fact.name: 'node.nope'")


def test_several_files_are_checked_to_the_end_and_good_ones_counted(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("metadata: [")
    (tmp_path / "b.yaml").write_text(GOOD)
    (tmp_path / "c.yaml").write_text(GOOD)
    result = kubenode("rules", "lint", tmp_path)
    assert result.returncode == 1
    assert "a.yaml:1:12: error: not valid YAML" in result.stdout
    assert "c.yaml:3:12: error: metadata.name: 'good' is taken" in result.stdout
    assert "2 errors, 1 piece of advice; 1 rule fine" in result.stderr


def test_a_file_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    result = kubenode("rules", "lint", tmp_path / "absent.yaml")
    assert result.returncode == 2
    assert "no such file" in result.stderr


def test_advice_is_told_but_is_a_finding_only_with_strict(tmp_path: Path) -> None:
    file = rule(tmp_path, GOOD)
    relaxed, strict = kubenode("rules", "lint", file), kubenode("rules", "lint", "--strict", file)
    assert (relaxed.returncode, strict.returncode) == (0, 1)
    assert relaxed.stdout == strict.stdout
    assert relaxed.stdout.startswith(f"{file}:4:1: advice: spec: the fault has no name")


def test_a_file_of_tests_is_sent_to_the_right_command(tmp_path: Path) -> None:
    file = tmp_path / "x.test.yaml"
    file.write_text("tests: []")
    result = kubenode("rules", "lint", file)
    assert result.returncode == 1
    assert f"run `kubenode rules test {file}`" in result.stdout


def test_rules_beside_them_are_known_but_not_judged(tmp_path: Path) -> None:
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    for folder in (mine, theirs):
        folder.mkdir()
    asking = GOOD.replace("condition: {type: KernelDeadlock, for: 30s}", "fact: {name: my.fact}")
    (mine / "rule.yaml").write_text(asking)
    inferring = GOOD.replace("name: good", "name: other").partition("  ladder:")[0]
    (theirs / "rule.yaml").write_text(f"{inferring}  infer: {{fact: my.fact}}\n")
    assert kubenode("rules", "lint", mine).returncode == 1
    result = kubenode("rules", "lint", mine, "--known", theirs)
    assert result.returncode == 0, result.stdout
    assert "theirs" not in result.stdout
