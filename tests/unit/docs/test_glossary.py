"""The glossary: the kinds, fields, classes and metrics that it names exist."""

import ast
import re
from functools import cache
from typing import Any

import pytest
from support.documented import ROOT

from kubenode.api.crd import definition
from kubenode.api.v1alpha1 import KINDS

PAGE = (ROOT / "docs/glossary.md").read_text()
ROW = re.compile(r"^\| (?!term|---)(.+?) \| (.+?) \|(?: (.+?))? \|(?: (.+?))? \|$", re.MULTILINE)
ROWS = [tuple(cell or "" for cell in row) for row in ROW.findall(PAGE)]
CARRIERS = sorted({name for row in ROWS for name in re.findall(r"`([^`]+)`", row[2])})


@cache
def schemas() -> dict[str, dict[str, Any]]:
    """Return the schema of each kind."""
    specs = [definition(kind)["spec"] for kind in KINDS]
    return {
        spec["names"]["kind"]: spec["versions"][0]["schema"]["openAPIV3Schema"] for spec in specs
    }


def is_field(path: str) -> bool:
    """Whether a custom resource has the field: `Kind.spec.field`."""
    kind, *fields = path.split(".")
    schema = schemas().get(kind)
    for field in fields:
        while schema and schema.get("type") == "array":
            schema = schema["items"]
        schema = schema and schema.get("properties", {}).get(field)
    return schema is not None


def is_class(path: str) -> bool:
    """Whether a module of the tree defines the class: `package.module.Class`."""
    module, _, name = path.rpartition(".")
    file = ROOT / (module.replace(".", "/") + ".py")
    if not file.is_file():
        return False
    nodes = ast.parse(file.read_text()).body
    return any(isinstance(node, ast.ClassDef) and node.name == name for node in nodes)


def is_metric(name: str) -> bool:
    return f"| `{name}` |" in (ROOT / "docs/reference/metrics.md").read_text()


def exists(name: str) -> bool:
    return is_metric(name) if name.startswith("kubenode_") else is_field(name) or is_class(name)


@pytest.mark.parametrize("name", CARRIERS)
def test_carrier_of_a_term_exists(name: str) -> None:
    assert exists(name)


@pytest.mark.parametrize(
    "name",
    [
        "NodeRemedier.spec.laddder",
        "Node.spec",
        "rules.truth.Truths",
        "rules.untruth.Truth",
        "kubenode_job_seconds_total",
        "Machine.spec.components.drift",
    ],
)
def test_carrier_that_does_not_exist_is_noticed(name: str) -> None:
    assert not exists(name)


def test_every_line_of_a_table_is_a_term() -> None:
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    assert len(ROWS) > 80
    assert len(ROWS) == sum(not line.startswith(("| term", "| ---")) for line in lines)


def test_term_is_defined_once_in_one_sentence_or_two() -> None:
    terms = [row[0] for row in ROWS]
    assert sorted(set(terms)) == sorted(terms)
    assert [row[0] for row in ROWS if not re.fullmatch(r"[A-Z].*\.", row[1])] == []


def test_every_kind_of_the_api_is_carried_by_a_term() -> None:
    assert set(schemas()) <= {name.split(".")[0] for name in CARRIERS}
