"""Commands of `kubenode insight`. As in kubenode.cli.app, nothing heavy is imported here."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import Field, dataclass, fields
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

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


@dataclass(frozen=True, slots=True)
class InsightSource:
    """Flags of every command: where Insight is, and how the answer is printed."""

    url: Annotated[
        str,
        typer.Option("--url", envvar="KUBENODE_INSIGHT_URL", metavar="URL", help="URL of Insight."),
    ] = "http://127.0.0.1:8087"
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            envvar="KUBENODE_INSIGHT_TOKEN_FILE",
            metavar="FILE",
            help="File with the bearer token of a reader.",
        ),
    ] = None
    ca_file: Annotated[
        Path | None,
        typer.Option(
            "--ca-file", metavar="FILE", help="File with the certificate authorities to trust."
        ),
    ] = None
    output: Annotated[Rows, typer.Option("--output", "-o", help="Output format.")] = Rows.TABLE


@dataclass(frozen=True, slots=True)
class InsightSelection(InsightSource):
    """Flags of the analyses: which faults and repairs they cover."""

    since: Annotated[
        str,
        typer.Option(
            "--since",
            metavar="DURATION",
            help="How far the period reaches back, such as 168h or 12h.",
        ),
    ] = "720h"
    cluster: Annotated[
        str, typer.Option("--cluster", metavar="NAME", help="Only this cluster.")
    ] = ""
    fault_class: Annotated[
        str, typer.Option("--class", metavar="CLASS", help="Only this class of faults.")
    ] = ""
    rule: Annotated[str, typer.Option("--rule", metavar="NAME", help="Only this rule.")] = ""

    @property
    def query(self) -> dict[str, Any]:
        """Return the parameters of a request, `since` as a length."""
        names = {"cluster": self.cluster, "class": self.fault_class, "rule": self.rule}
        values = {name: value for name, value in names.items() if value}
        return {"since": duration(self.since, "--since"), **values}


def with_source(model: type[InsightSource]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the flags of `model`, which it gets as its argument `source`."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        shared = [_parameter(each) for each in fields(model)]

        @wraps(command)
        def run(**flags: Any) -> None:
            values = {each.name: flags.pop(each.name) for each in shared}
            command(**flags, source=model(**values))

        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # read by inspect
            [*_own(command), *shared]
        )
        return run

    return decorate


def _own(command: Callable[..., None]) -> Iterator[inspect.Parameter]:
    keyword = inspect.Parameter.KEYWORD_ONLY
    for name, parameter in inspect.signature(command).parameters.items():
        if name != "source":
            yield parameter.replace(kind=keyword)


def _parameter(field: Field[Any]) -> inspect.Parameter:
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(field.name, keyword, default=field.default, annotation=field.type)


@insight_app.command("healing")
@with_source(InsightSelection)
def healing(source: InsightSelection) -> None:
    """Show how well rules heal: outcomes and times by rule and last rung."""
    from kubenode.cli.exits import run
    from kubenode.cli.insight_report import HEALING, report

    run(report(HEALING, source, {}))


@insight_app.command("faults")
@with_source(InsightSelection)
def faults(
    source: InsightSelection,
    by: Annotated[
        str,
        typer.Option(
            metavar="PROPERTY",
            help="class, rule, severity, cluster, zone, rack, machine-type, image or kernel.",
        ),
    ] = "class",
    every: Annotated[
        str, typer.Option(metavar="INTERVAL", help="Time of one row: day or week.")
    ] = "day",
) -> None:
    """Show how many faults there were over time, by a property of the fault or its node."""
    from kubenode.cli.exits import run
    from kubenode.cli.insight_report import FAULTS, report

    run(report(FAULTS, source, {"by": by, "every": every}))


@insight_app.command("lemons")
@with_source(InsightSelection)
def lemons(
    source: InsightSelection,
    least: Annotated[
        int, typer.Option("--min", min=1, metavar="NUMBER", help="Least number of faults.")
    ] = 3,
) -> None:
    """Show the nodes that fail again and again, the worst first."""
    from kubenode.cli.exits import run
    from kubenode.cli.insight_report import LEMONS, report

    run(report(LEMONS, source, {"min": str(least)}))


@insight_app.command("incident")
@with_source(InsightSource)
def incident(
    source: InsightSource,
    name: Annotated[
        str, typer.Argument(metavar="ID", help="UID or name of the job of the incident.")
    ],
) -> None:
    """Show one incident from the first signal to its end, and what worked for similar ones."""
    from kubenode.cli.exits import run
    from kubenode.cli.insight_report import report_incident

    run(report_incident(source, name))
