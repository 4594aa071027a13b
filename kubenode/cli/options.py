"""Flags that several commands share."""

from enum import StrEnum
from typing import Annotated

import typer

Kubeconfig = Annotated[
    str | None,
    typer.Option("--kubeconfig", envvar="KUBENODE_KUBECONFIG", metavar="FILE",
                 help="Which cluster; else $KUBECONFIG, ~/.kube/config, in-cluster."),
]  # fmt: skip
Context = Annotated[
    str | None,
    typer.Option("--context", envvar="KUBENODE_CONTEXT", help="Context of the kubeconfig."),
]


class Listing(StrEnum):
    """How a list is printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


class Plain(StrEnum):
    """A table for people, or JSON for programs."""

    TABLE = "table"
    JSON = "json"
