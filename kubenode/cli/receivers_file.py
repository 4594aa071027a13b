"""Reads receivers, and objects for external remediation, from the file of `--receivers-file`.

The file is read and checked before anything starts. So an invalid template or a missing secret is
reported at the start and not by the first job that needs it.
"""

from pathlib import Path

from pydantic import ValidationError

from kubenode.api.problems import field_path, problems
from kubenode.cli.documents import UnreadableDocument, YamlDocument, read
from kubenode.cli.exits import Exit, Refusal
from remedy.outside import Outside, faults

REMEDY = "must be one YAML map with `receivers` and `objects`; see docs/notifications.md"


def received(path: str | None) -> Outside | None:
    """Return the content of the file; None without a file.

    Raises Refusal, a line for each problem.
    """
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
    """Validate the document and its templates and secrets. Raises Refusal."""
    try:
        outside = Outside.model_validate(document.data)
    except ValidationError as error:
        lines = problems(error, Outside, document.where)
        raise Refusal("\n".join(lines), Exit.USAGE) from error
    lines = [f"{document.where(at)}: {field_path(at)}: {why}" for at, why in faults(outside)]
    if lines:
        raise Refusal("\n".join(lines), Exit.USAGE)
    return outside
