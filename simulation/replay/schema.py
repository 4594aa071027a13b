"""The JSON schema of rule test files, such as `kernel-deadlock.test.yaml`."""

from typing import Any

from kubenode.api.jsonschema import DRAFT, of_model
from simulation.replay.testfile import TestFile


def of_rule_tests() -> dict[str, Any]:
    """Return the JSON schema of rule test files."""
    made = of_model(TestFile, "TestFile")
    made["description"] = "Tests of rules: nodes, a timeline of signals, and what must come of it."
    _add_booleans(made["$defs"]["Expect"]["properties"]["guards"])
    return {"$schema": DRAFT, "title": "Rule tests of KubeNode"} | made


def _add_booleans(guards: dict[str, Any]) -> None:
    """Allow the booleans true and false: YAML reads a bare `true` as a boolean, and so do rule
    tests.
    """
    truth = guards["additionalProperties"]
    truth.pop("type", None)
    truth["enum"] = [*truth["enum"], True, False]
