"""What can be typed after `kubenode rules`. As in kubenode.cli.app nothing heavy is imported."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kubenode.cli.options import Context, Kubeconfig

rules_app = typer.Typer(no_args_is_help=True, help="Write, check, test and look after rules.")

Files = Annotated[list[Path], typer.Argument(help="YAML files, or folders of them.")]


class Findings(StrEnum):
    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


@rules_app.command("lint")
def lint(
    files: Files,
    output: Annotated[
        Findings, typer.Option("--output", "-o", help="sarif is for code hosts and editors.")
    ] = Findings.TEXT,
    strict: Annotated[bool, typer.Option("--strict", help="Advice counts as a finding.")] = False,
    known: Annotated[
        list[Path] | None,
        typer.Option("--known", metavar="PATH", help="Rules loaded beside them; repeatable."),
    ] = None,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="The cluster's rules are loaded beside them.")
    ] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Check rules: each finding as file:line:col: severity: field: problem, remedy [code]."""
    from kubenode.cli.exits import explained, run
    from kubenode.cli.library import rules_from
    from kubenode.cli.lint import Format, beside
    from kubenode.cli.lint import lint as work

    with explained():
        others = rules_from(known) if known else []
        conditions: tuple[str, ...] = ()
        if cluster:
            fleet = run(beside(kubeconfig, context))
            others, conditions = [*fleet.rules, *others], fleet.conditions
        code = work(
            files, output=Format(output), strict=strict, known=others, conditions=conditions
        )
        raise typer.Exit(code)


@rules_app.command("schema")
def schema(
    kind: Annotated[str, typer.Option("--kind", help="As in `kind:` of the file.")] = (
        "NodeRemedier"
    ),
) -> None:
    """Print the JSON schema of a kind, for editors that check and complete YAML."""
    from kubenode.cli.exits import explained
    from kubenode.cli.schema import schema as work

    with explained():
        raise typer.Exit(work(kind))
