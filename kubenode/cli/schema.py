"""`kubenode rules schema`: what editors need to check and complete our YAML while it is written.

Beside the kinds of the API there is the schema of rule tests, which is no kind of a cluster:

    python -m kubenode.cli.schema            write docs/reference/schema/ruletest.json
    python -m kubenode.cli.schema --check    exit 1 when it differs
"""

import difflib
import sys
from typing import Any

import typer

from kubenode.api.generated import run
from kubenode.api.jsonschema import DRAFT, FOLDER, of_model, text
from kubenode.api.jsonschema import schema as of_kind
from kubenode.api.v1alpha1 import KINDS
from kubenode.cli.exits import Exit, Refusal

RULE_TEST = "RuleTest"


def schema(kind: str) -> Exit:
    """Print the schema on standard output, and on standard error how to use it."""
    kinds = {one.resource.kind: one for one in KINDS}
    name = {one.lower(): one for one in (*kinds, RULE_TEST)}.get(kind.lower())
    if name is None:
        near = difflib.get_close_matches(kind, [*kinds, RULE_TEST], n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(kinds)}, {RULE_TEST}"
        raise Refusal(f"kind {kind!r} is not known: {hint}", Exit.USAGE)
    made = of_rule_tests() if name == RULE_TEST else of_kind(kinds[name])
    typer.echo(text(made), nl=False)
    file = f"{name.lower()}.json"
    typer.echo(
        f"kubenode: save it as {file}, and begin your files with\n"
        f"# yaml-language-server: $schema={file}",
        err=True,
    )
    return Exit.FINE


def of_rule_tests() -> dict[str, Any]:
    """Of files such as `kernel-deadlock.test.yaml`."""
    from kubenode.cli.replay.testfile import TestFile

    made = of_model(TestFile, "TestFile")
    made["description"] = "Tests of rules: nodes, a timeline of signals, and what must come of it."
    _truths_are_words(made["$defs"]["Expect"]["properties"]["guards"])
    return {"$schema": DRAFT, "title": "Rule tests of KubeNode"} | made


def _truths_are_words(guards: dict[str, Any]) -> None:
    """YAML reads a bare true as no text, and the reader takes it for the word."""
    truth = guards["additionalProperties"]
    truth.pop("type", None)
    truth["enum"] = [*truth["enum"], True, False]


def main(arguments: list[str]) -> int:
    return run({FOLDER / f"{RULE_TEST.lower()}.json": text(of_rule_tests())}, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
