"""`kubenode rules import`: prints health checks of other systems as rules.

Comments before each rule name what has no equivalent. Nothing is applied.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import typer
from pydantic import ValidationError

from kubenode.api.problems import problems
from kubenode.api.v1alpha1 import DefenderPolicy, NodeRemedier
from kubenode.cli.documents import UnreadableDocument, YamlDocument, files, read
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.lint import parts
from kubenode.cli.tables import as_yaml
from rules.converters import CannotImport, Imported, imported
from rules.lint import LintSeverity, lint

WIDTH = 100


def command(given: Sequence[Path]) -> Exit:
    """Print the converted rules. Return FINDING if one cannot be imported or has lint errors."""
    try:
        documents = [document for path in files(given) for document in read(path)]
    except UnreadableDocument as error:
        raise Refusal(str(error), Exit.USAGE) from error
    code, written = Exit.FINE, 0
    for document in documents:
        for data, where in _objects(document):
            try:
                conversion = imported(data)
                rule = _checked(conversion)
            except CannotImport as error:
                typer.echo(f"{where(error.path)}: {error}", err=True)
                code = Exit.FINDING
                continue
            typer.echo(("---\n" if written else "") + text(conversion), nl=False)
            written += 1
            code = max(code, _linted(rule))
    typer.echo(f"kubenode: {written} imported, in mode DryRun unless they were paused", err=True)
    return code


def _objects(document: YamlDocument) -> Iterator[tuple[object, "Where"]]:
    """Yield the object, or the items of a List as `kubectl get -o yaml` writes it."""
    data = document.data
    if isinstance(data, dict) and data.get("kind", "").endswith("List") and "items" in data:
        for number, item in enumerate(data["items"]):
            yield item, Where(document, f"items[{number}]")
    else:
        yield data, Where(document)


class Where:
    """Returns the place of a field of one object, as `file:line:col`."""

    def __init__(self, document: YamlDocument, prefix: str = "") -> None:
        self._document, self._prefix = document, prefix

    def __call__(self, path: str) -> str:
        whole = ".".join(filter(None, (self._prefix, path)))
        return self._document.where(parts(whole))


def text(conversion: Imported) -> str:
    """Render the objects as YAML, with the notes before them as comments."""
    lines = ["# Imported by `kubenode rules import`: look it through, lint it, try it in DryRun."]
    for note in conversion.notes:
        lines += _comment(f"{note.path}: {note.text}")
    documents = [as_yaml(conversion.rule)]
    if conversion.policy is not None:
        documents.append(as_yaml(conversion.policy))
    return "\n".join(lines) + "\n" + "---\n".join(documents)


def _comment(sentence: str) -> Iterator[str]:
    line = "#"
    for word in sentence.split():
        if len(line) + 1 + len(word) > WIDTH:
            yield line
            line = "#  "
        line += f" {word}"
    yield line


def _checked(conversion: Imported) -> NodeRemedier:
    """Validate the conversion.

    Raises CannotImport if our models refuse it, such as for a long name.
    """
    try:
        if conversion.policy is not None:
            DefenderPolicy.from_user(conversion.policy)
        return NodeRemedier.from_user(conversion.rule)
    except ValidationError as error:
        raise CannotImport("", f"would be no valid rule: {problems(error)[0]}") from error


def _linted(rule: NodeRemedier) -> Exit:
    errors = [finding for finding in lint([rule]) if finding.severity is LintSeverity.ERROR]
    for finding in errors:
        typer.echo(
            f"kubenode: {finding.rule}: {finding.path}: {finding.message} [{finding.code}]",
            err=True,
        )
    return Exit.FINDING if errors else Exit.FINE
