"""`kubenode rules schema`: what editors need to check and complete our YAML while it is written."""

import difflib

import typer

from kubenode.api.jsonschema import text
from kubenode.api.v1alpha1 import KINDS
from kubenode.cli.exits import Exit, Refusal


def schema(kind: str) -> Exit:
    """Print the schema on standard output, and on standard error how to use it."""
    kinds = {one.resource.kind: one for one in KINDS}
    found = {name.lower(): one for name, one in kinds.items()}.get(kind.lower())
    if found is None:
        near = difflib.get_close_matches(kind, kinds, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(kinds)}"
        raise Refusal(f"kind {kind!r} is not known: {hint}", Exit.USAGE)
    typer.echo(text(found), nl=False)
    file = f"{found.resource.kind.lower()}.json"
    typer.echo(
        f"kubenode: save it as {file}, and begin your files with\n"
        f"# yaml-language-server: $schema={file}",
        err=True,
    )
    return Exit.FINE
