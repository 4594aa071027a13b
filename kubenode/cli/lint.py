"""`kubenode rules lint`: what is wrong with rule files, before any cluster sees them.

The checks are those of admission (the models of the API) and of the registry (compiling the rule),
on the same lines of text; here each begins with the place in the file.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from pydantic import ValidationError

from kubenode.api.problems import problems
from kubenode.api.v1alpha1 import API_VERSION, DefenderPolicy, NodeRemedier
from kubenode.cli.documents import Document, Unreadable, files, read
from kubenode.cli.exits import Exit, Refusal

LINTED: Mapping[str, type[NodeRemedier] | type[DefenderPolicy]] = {
    "NodeRemedier": NodeRemedier,
    "DefenderPolicy": DefenderPolicy,
}


def lint(given: Sequence[Path]) -> Exit:
    """Print every finding on standard output, and a count on standard error."""
    try:
        paths = files(given)
    except Unreadable as error:
        raise Refusal(str(error), Exit.USAGE) from error
    found: list[str] = []
    good: dict[str, tuple[Document, NodeRemedier]] = {}
    for path in paths:
        found += _of_file(path, good)
    found += compiled(good)
    for line in found:
        typer.echo(line)
    rules = f"{len(good)} rule{'s' if len(good) != 1 else ''}"
    if found:
        typer.echo(f"{len(found)} problem{'s' if len(found) > 1 else ''}; {rules} fine", err=True)
        return Exit.FINDING
    typer.echo(f"{rules} fine", err=True)
    return Exit.FINE


def _of_file(path: Path, good: dict[str, tuple[Document, NodeRemedier]]) -> list[str]:
    found: list[str] = []
    try:
        for document in read(path):
            found += _of_document(document, good)
    except Unreadable as error:
        found.append(str(error))
    return found


def _of_document(
    document: Document, good: dict[str, tuple[Document, NodeRemedier]]
) -> Iterator[str]:
    data = document.data
    if not isinstance(data, Mapping):
        yield f"{document.where(())}: no object: write apiVersion, kind, metadata and spec"
        return
    kind = data.get("kind")
    model = LINTED.get(str(kind))
    if model is None:
        known = " or ".join(LINTED)
        yield f"{document.where(('kind',))}: kind: {kind!r} cannot be checked here: write {known}"
        return
    if data.get("apiVersion") != API_VERSION:
        text = f"{data.get('apiVersion')!r} is not known: write {API_VERSION}"
        yield f"{document.where(('apiVersion',))}: apiVersion: {text}"
        return
    try:
        read_in = model.from_user(data)
    except ValidationError as error:
        yield from problems(error, model, document.where)
        return
    name = read_in.metadata.name
    if not name:
        yield f"{document.where(('metadata',))}: metadata.name: missing: give the rule a name"
    elif isinstance(read_in, NodeRemedier):
        if name in good:
            first = good[name][0].where(("metadata", "name"))
            place = document.where(("metadata", "name"))
            yield f"{place}: metadata.name: {name!r} is taken by {first}: choose another"
        else:
            good[name] = (document, read_in)


def compiled(good: dict[str, tuple[Document, NodeRemedier]]) -> list[str]:
    """Findings of the compiler, over all rules together: derived facts may form a cycle."""
    from rules.program import Rule, compile_program

    program = compile_program([Rule(name, rule) for name, (_, rule) in good.items()])
    found = []
    for error in program.rejected:
        document, _ = good.pop(error.rule)
        found.append(f"{document.where(_parts(error.path))}: {error.path}: {error.message}")
    return found


def _parts(path: str) -> tuple[Any, ...]:
    """`spec.when.all[2].fact` as the keys that lead there."""
    keys = path.replace("[", ".").replace("]", "").split(".")
    return tuple(int(key) if key.isdigit() else key for key in keys if key)
