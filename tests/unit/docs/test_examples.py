"""The custom resources that pages show are valid, and the rule of README.md passes lint."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from ruamel.yaml import YAML
from support.documented import ROOT

from kubenode.api.v1alpha1 import KINDS, NodeRemedier
from rules.lint import LintSeverity, lint

SHOWN = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
MODELS = {kind.resource.kind: kind for kind in KINDS}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def custom_resources() -> Iterator[tuple[str, dict[str, Any]]]:
    """Page and object, for every complete object of the group kubenode.io."""
    for page in PAGES:
        for block in SHOWN.findall(page.read_text()):
            if "apiVersion: kubenode.io/" in block:
                for body in YAML(typ="safe").load_all(block):
                    if body["apiVersion"].startswith("kubenode.io/"):
                        yield page.name, body


RESOURCES = list(custom_resources())


@pytest.mark.parametrize(("page", "body"), RESOURCES, ids=lambda value: str(value)[:40])
def test_shown_resource_is_valid(page: str, body: dict[str, Any]) -> None:
    made = MODELS[body["kind"]].model_validate(body)
    assert made.to_dict()["metadata"]["name"] == body["metadata"]["name"], page


def test_pages_show_every_kind_that_people_write() -> None:
    kinds = {body["kind"] for _, body in RESOURCES}
    assert kinds >= {"NodeRemedier", "DefenderPolicy", "MachineComponent", "MachineComponentSet"}


def test_rule_of_readme_has_no_lint_error() -> None:
    (body,) = (body for page, body in RESOURCES if page == "README.md")
    findings = lint([NodeRemedier.model_validate(body)])
    assert [found for found in findings if found.severity is LintSeverity.ERROR] == []
