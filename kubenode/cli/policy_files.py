"""Reads DefenderPolicies from YAML files of users."""

from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from kubenode.api.problems import problems
from kubenode.api.v1alpha1 import DefenderPolicy
from kubenode.cli.documents import UnreadableDocument, read
from kubenode.cli.exits import Exit, Refusal


def policies_from(path: Path) -> list[DefenderPolicy]:
    """Return the policies of a file. Raises Refusal with the place of each problem."""
    policies = []
    try:
        for document in read(path):
            data = document.data
            if isinstance(data, Mapping) and data.get("kind") == "DefenderPolicy":
                try:
                    policies.append(DefenderPolicy.from_user(data))
                except ValidationError as error:
                    lines = problems(error, DefenderPolicy, document.where)
                    raise Refusal("\n".join(lines)) from error
    except UnreadableDocument as error:
        raise Refusal(str(error), Exit.USAGE) from error
    if not policies:
        raise Refusal(f"{path}: no DefenderPolicy in this file; name another", Exit.USAGE)
    return policies
