"""Commands of `kubenode insight`. As in kubenode.cli.app, nothing heavy is imported here."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kubenode.cli.command_group import CommandGroup
from kubenode.cli.options import duration

insight_app = CommandGroup(
    help="Show what the fleet has lived through, from the store of `kubenode run insight`."
)


class Rows(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


Url = Annotated[
    str,
    typer.Option("--url", envvar="KUBENODE_INSIGHT_URL", metavar="URL", help="URL of Insight."),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        envvar="KUBENODE_INSIGHT_TOKEN_FILE",
        metavar="FILE",
        help="File with the bearer token of a reader.",
    ),
]
CaFile = Annotated[
    Path | None,
    typer.Option(
        "--ca-file", metavar="FILE", help="File with the certificate authorities to trust."
    ),
]
Since = Annotated[
    str,
    typer.Option(
        "--since", metavar="DURATION", help="How far the period reaches back, such as 168h or 12h."
    ),
]
Output = Annotated[Rows, typer.Option("--output", "-o", help="Output format.")]

URL = "http://127.0.0.1:8087"
PERIOD = "720h"


@insight_app.command("healing")
def healing(
    since: Since = PERIOD,
    url: Url = URL,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
    output: Output = Rows.TABLE,
) -> None:
    """Show how well rules heal: outcomes and times by rule and last rung."""
    from kubenode.cli.exits import run
    from kubenode.cli.insight_report import HEALING, InsightAddress, report

    query = {"since": duration(since, "--since")}
    run(report(HEALING, InsightAddress(url, token_file, ca_file), query, output))


@insight_app.command("faults")
def faults(
    by: Annotated[
        str,
        typer.Option(
            metavar="PROPERTY",
            help="class, rule, severity, cluster, zone, machine-type, image or kernel.",
        ),
    ] = "class",
    every: Annotated[
        str, typer.Option(metavar="INTERVAL", help="Time of one row: day or week.")
    ] = "day",
    since: Since = PERIOD,
    url: Url = URL,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
    output: Output = Rows.TABLE,
) -> None:
    """Show how many faults there were over time, by a property of the fault or its node."""
    from kubenode.cli.exits import run
    from kubenode.cli.insight_report import FAULTS, InsightAddress, report

    query = {"since": duration(since, "--since"), "by": by, "every": every}
    run(report(FAULTS, InsightAddress(url, token_file, ca_file), query, output))


@insight_app.command("lemons")
def lemons(
    least: Annotated[
        int, typer.Option("--min", min=1, metavar="NUMBER", help="Least number of faults.")
    ] = 3,
    since: Since = PERIOD,
    url: Url = URL,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
    output: Output = Rows.TABLE,
) -> None:
    """Show the nodes that fail again and again, the worst first."""
    from kubenode.cli.exits import run
    from kubenode.cli.insight_report import LEMONS, InsightAddress, report

    query = {"since": duration(since, "--since"), "min": str(least)}
    run(report(LEMONS, InsightAddress(url, token_file, ca_file), query, output))
