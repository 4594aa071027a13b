"""`-o jsonpath=TEMPLATE`, as users of kubectl write it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kubenode.cli.app import app
from kubenode.cli.jsonpath import JsonPathError, parse_template, render

JOBS: list[dict[str, Any]] = [
    {"name": "a", "node": "n1", "labels": {"kubenode.io/rack": "r1"}, "age": 5, "done": False},
    {"name": "b", "node": "n2", "labels": {}, "age": None, "done": True},
]


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.items[*].name}", "a b"),
        ("{$.items[0].name}", "a"),
        ("{.items[-1].node}", "n2"),
        ("{.items[9].node}", ""),
        ("{.items[*].nothing.below}", ""),
        ("{.items[0].labels['kubenode.io/rack']}", "r1"),
        (r"{.items[0].labels.kubenode\.io/rack}", "r1"),
        ("{.items[*].age} {.items[*].done}", "5  false true"),
        ("{.items[1]}", '{"name":"b","node":"n2","labels":{},"age":null,"done":true}'),
        ('{range .items[*]}{.name}{"\\t"}{.node}{"\\n"}{end}', "a\tn1\nb\tn2\n"),
        ("{range .items[*]}{@.name},{end}.", "a,b,."),
        ("jobs: {.items[*].name}!", "jobs: a b!"),
        ('{"{"}{.items[0].name}{"}"}', "{a}"),
    ],
)
def test_template_selects_values(template: str, text: str) -> None:
    assert render(parse_template(template), JOBS) == text


def test_report_is_the_root_itself() -> None:
    report = {"nodes": [{"name": "n1"}, {"name": "n2"}], "now": "t"}
    assert render(parse_template("{.now}: {.nodes[*].name}"), report) == "t: n1 n2"


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("", "no field"),
        ("name", "no field"),
        ("{.name", "character 1 is not closed"),
        ("{}", "names no field"),
        ("{name}", "'name' is not supported"),
        ("{.items[?(@.a>1)].name}", "is not supported"),
        ("{..name}", "is not supported"),
        ("{.items[0:2]}", "is not supported"),
        ("{range .items[*]}{.name}", "without {end}"),
        ("{.name}{end}", "{end} without {range}"),
        ('{"a\\q"}{.name}', "is no text"),
    ],
)
def test_invalid_template_is_refused_with_the_part_that_is_wrong(template: str, why: str) -> None:
    with pytest.raises(JsonPathError) as refused:
        parse_template(template)
    assert why in str(refused.value)


def run(*words: str) -> Any:
    return CliRunner().invoke(app, ["rules", "list", "--pack", "network", *words])


@pytest.mark.parametrize(
    "flag",
    [
        ["-o", "jsonpath={}"], ["-ojsonpath={}"], ["-o=jsonpath={}"],
        ["--output=jsonpath={}"], ["--output", "jsonpath={}"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_every_form_of_the_flag_prints_what_json_has(flag: list[str]) -> None:
    names = [rule["name"] for rule in json.loads(run("-o", "json").stdout)]
    shown = run(*(word.replace("{}", "{.items[*].name}") for word in flag))
    assert shown.stdout == " ".join(names) + "\n" and len(names) > 3
    assert json.loads(run("-o=json").stdout), "the next command is not affected"


def test_template_without_end_is_an_error_of_usage() -> None:
    result = run("-o", "jsonpath={range .items[*]}")
    assert result.exit_code == 2 and "{range} without {end}" in result.stderr


def test_command_without_lists_takes_no_template(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["rules", "lint", str(tmp_path), "-o", "jsonpath={.a}"])
    assert result.exit_code == 2


def test_template_is_not_for_a_list_that_goes_on() -> None:
    words = ["job", "list", "--watch", "-o", "jsonpath={.items[*].name}"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2 and "leave out --watch" in re.sub(r"[\s│]+", " ", result.stderr)


def test_help_names_the_format() -> None:
    shown = CliRunner().invoke(app, ["rules", "list", "--help"], env={"COLUMNS": "300"}).stdout
    assert "table|wide|json|yaml|name|jsonpath=TEMPLATE" in re.sub(r"[\s│]", "", shown)
