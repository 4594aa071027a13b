"""Flags that several commands share, and the values of flags."""

from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kubenode.cli.command_group import PANEL, inherit

Kubeconfig = Annotated[
    str | None,
    typer.Option("--kubeconfig", envvar="KUBENODE_KUBECONFIG", metavar="FILE", callback=inherit,
                 rich_help_panel=PANEL,
                 help="Kubeconfig file; default: $KUBECONFIG, ~/.kube/config,"
            " in-cluster."),
]  # fmt: skip
Context = Annotated[
    str | None,
    typer.Option("--context", envvar="KUBENODE_CONTEXT", metavar="NAME", callback=inherit,
                 rich_help_panel=PANEL, help="Context of the kubeconfig."),
]  # fmt: skip
Namespace = Annotated[
    str,
    typer.Option("--namespace", "-n", metavar="NAME", callback=inherit, rich_help_panel=PANEL,
                 help="Namespace of the programs of KubeNode and of their Leases."),
]  # fmt: skip
Rules = Annotated[
    list[Path] | None,
    typer.Option(
        "--rules",
        metavar="PATH",
        help="Files or folders with rules; repeatable. Default: the rule library.",
    ),
]


def duration(text: str, option: str) -> timedelta:
    """Parse the duration of an option. Raises BadParameter that names the option."""
    from kubenode.api.duration import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


class Listing(StrEnum):
    """How a list is printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


class ReportFormat(StrEnum):
    """How a report is printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


ListingOutput = Annotated[Listing, typer.Option("-o", "--output", help="Output format.")]
ReportOutput = Annotated[ReportFormat, typer.Option("-o", "--output", help="Output format.")]


class Plain(StrEnum):
    """A table for people, or JSON for programs."""

    TABLE = "table"
    JSON = "json"


class Findings(StrEnum):
    """How findings are printed; SARIF is for code hosts and editors."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


class InstallMode(StrEnum):
    """The modes of a NodeRemedier."""

    ENFORCE = "Enforce"
    APPROVE = "Approve"
    DRY_RUN = "DryRun"
    OFF = "Off"


class Page(StrEnum):
    """A table, JSON, or a page of documentation."""

    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"


class Engines(StrEnum):
    """Which rule engines are asked."""

    BOTH = "both"
    REFERENCE = "reference"


class Drawing(StrEnum):
    """How a graph is written."""

    MERMAID = "mermaid"
    SVG = "svg"
    JSON = "json"
