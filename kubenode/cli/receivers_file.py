"""Receivers and objects to hand over to, from the file that `--receivers-file` names.

Read and tried once, before anything starts: a template that cannot be rendered and a secret that
is not there are found by whoever starts the program, not by the first job that needs them.
"""

from pathlib import Path

from pydantic import ValidationError

from kubenode.api.problems import field_path, problems
from kubenode.cli.documents import UnreadableDocument, YamlDocument, read
from kubenode.cli.exits import Exit, Refusal
from remedy.outside import Outside, faults

REMEDY = "must be one YAML map with `receivers` and `objects`; see docs/notifications.md"


def received(path: str | None) -> Outside | None:
    """What the file says; None without a file. Raises Refusal, a line for each wrong thing."""
    if path is None:
        return None
    try:
        documents = list(read(Path(path)))
    except UnreadableDocument as error:
        raise Refusal(str(error), Exit.USAGE) from error
    if len(documents) != 1 or not isinstance(documents[0].data, dict):
        raise Refusal(f"{path}: {REMEDY}", Exit.USAGE)
    return checked(documents[0])


def checked(document: YamlDocument) -> Outside:
    """Raises Refusal."""
    try:
        outside = Outside.model_validate(document.data)
    except ValidationError as error:
        lines = problems(error, Outside, document.where)
        raise Refusal("\n".join(lines), Exit.USAGE) from error
    lines = [f"{document.where(at)}: {field_path(at)}: {why}" for at, why in faults(outside)]
    if lines:
        raise Refusal("\n".join(lines), Exit.USAGE)
    return outside
