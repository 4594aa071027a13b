"""`kubenode rules schema`: prints JSON schemas with which editors check and complete our YAML.

Beside the kinds of the API there is the schema of rule tests, which are not stored in clusters.
"""

import difflib

import typer

from kubenode.api.jsonschema import schema as of_kind
from kubenode.api.jsonschema import text
from kubenode.api.v1alpha1 import KINDS
from kubenode.cli.exits import Exit, Refusal

RULE_TEST = "RuleTest"


def schema(kind: str) -> Exit:
    """Print the schema on standard output, and on standard error how to use it."""
    kinds = {candidate.resource.kind: candidate for candidate in KINDS}
    name = {candidate.lower(): candidate for candidate in (*kinds, RULE_TEST)}.get(kind.lower())
    if name is None:
        near = difflib.get_close_matches(kind, [*kinds, RULE_TEST], n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(kinds)}, {RULE_TEST}"
        raise Refusal(f"kind {kind!r} is not known: {hint}", Exit.USAGE)
    if name == RULE_TEST:
        from kubenode.cli.simulation import commands

        made = commands.build_rule_test_schema()
    else:
        made = of_kind(kinds[name])
    typer.echo(text(made), nl=False)
    file = f"{name.lower()}.json"
    typer.echo(
        f"kubenode: save it as {file}, and begin your files with\n"
        f"# yaml-language-server: $schema={file}",
        err=True,
    )
    return Exit.FINE
