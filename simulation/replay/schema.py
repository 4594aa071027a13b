"""JSON schema of rule test files, such as `kernel-deadlock.test.yaml`."""

from typing import Any

from kubenode.api.jsonschema import DRAFT, of_model
from simulation.replay.testfile import TestFile


def of_rule_tests() -> dict[str, Any]:
    """Of files such as `kernel-deadlock.test.yaml`."""
    made = of_model(TestFile, "TestFile")
    made["description"] = "Tests of rules: nodes, a timeline of signals, and what must come of it."
    _add_booleans(made["$defs"]["Expect"]["properties"]["guards"])
    return {"$schema": DRAFT, "title": "Rule tests of KubeNode"} | made


def _add_booleans(guards: dict[str, Any]) -> None:
    """YAML reads a bare true as no text, and the reader takes it for the word."""
    truth = guards["additionalProperties"]
    truth.pop("type", None)
    truth["enum"] = [*truth["enum"], True, False]
