"""The rules of docs/rule-examples.md: tests hold, and fail for the mistakes that they name."""

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.cli.engine import engines
from rules.lint.codes import LintSeverity
from rules.lint.linter import lint
from simulation.replay.testing import LoadedOnce, collected, run

ROOT = Path(__file__).parents[3]
SECTION = re.compile(r"^## (.+)\n((?:.|\n)*?)(?=^## |\Z)", re.MULTILINE)
BLOCK = re.compile(r"```yaml\n(.*?)```", re.DOTALL)
MISTAKE = re.compile(r"^# Fails with (?:([a-z-]+) )?(spec\S+): (.+)$", re.MULTILINE)
FEWEST = 15


@dataclass(frozen=True, slots=True)
class Example:
    """A section of the page: its rules, and the text of their test."""

    title: str
    rules: tuple[dict[str, Any], ...]
    test: str

    @property
    def mistakes(self) -> list[tuple[str, str, str]]:
        """Rule, field and wrong value of each mistake."""
        first = self.rules[0]["metadata"]["name"]
        return [(name or first, path, value) for name, path, value in MISTAKE.findall(self.test)]


def load(text: str) -> Any:
    return list(YAML(typ="safe", pure=True).load_all(text))


def examples() -> Iterator[Example]:
    for title, body in SECTION.findall((ROOT / "docs/rule-examples.md").read_text()):
        rules, test = BLOCK.findall(body)
        yield Example(title, tuple(load(rules)), test)


EXAMPLES = tuple(examples())
MISTAKES = [(example, *mistake) for example in EXAMPLES for mistake in example.mistakes]


def changed(rule: dict[str, Any], path: str, value: str) -> dict[str, Any]:
    """The rule with another value of a field; null removes it."""
    copy: dict[str, Any]
    (copy,) = load(dumped([rule]))
    *parents, last = (int(p) if p.isdecimal() else p for p in re.findall(r"[\w]+", path))
    place: Any = copy
    for key in parents:
        place = place[key]
    (wanted,) = load(value)
    if wanted is None:
        del place[last]
    else:
        place[last] = wanted
    assert copy != rule
    return copy


def dumped(rules: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    YAML(typ="safe", pure=True).dump_all(rules, text)
    return text.getvalue()


@pytest.fixture(scope="module")
def both() -> Iterator[LoadedOnce]:
    with engines() as diagnoser:
        yield LoadedOnce(diagnoser)


def failures(
    folder: Path, example: Example, rules: list[dict[str, Any]], both: LoadedOnce | None
) -> list[str]:
    (name,) = load(example.test)[0]["rules"]
    (folder / name).write_text(dumped(rules))
    (folder / "example.ruletest").write_text(example.test)
    return [f"{f.place}: {f.difference}" for case in collected([folder]) for f in run(case, both)]


def test_the_page_has_all_examples_and_each_names_a_mistake() -> None:
    assert len(EXAMPLES) >= FEWEST
    assert [example.title for example in EXAMPLES if not example.mistakes] == []


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.title)
@pytest.mark.exhaustive
def test_an_example_holds_on_both_engines(
    example: Example, tmp_path: Path, both: LoadedOnce
) -> None:
    assert failures(tmp_path, example, list(example.rules), both) == []


@pytest.mark.parametrize(
    ("example", "rule", "path", "value"),
    MISTAKES,
    ids=[f"{example.title}: {path}={value}" for example, _, path, value in MISTAKES],
)
@pytest.mark.exhaustive
def test_the_test_of_an_example_fails_for_the_wrong_rule(
    example: Example, rule: str, path: str, value: str, tmp_path: Path, both: LoadedOnce
) -> None:
    wrong = [changed(r, path, value) if r["metadata"]["name"] == rule else r for r in example.rules]
    for each in wrong:
        NodeRemedier.from_user(each)
    assert failures(tmp_path, example, wrong, both) != []


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.title)
def test_an_example_has_no_error_of_lint(example: Example) -> None:
    rules = [NodeRemedier.from_user(rule) for rule in example.rules]
    findings = [f for f in lint(rules) if f.severity is LintSeverity.ERROR]
    assert findings == []
