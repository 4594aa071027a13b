"""Commands of `kubenode rules`. As in kubenode.cli.app, nothing heavy is imported here."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from kubenode.cli import rules_cluster as running
from kubenode.cli.command_group import CommandGroup
from kubenode.cli.options import (
    Context,
    Drawing,
    Engines,
    Findings,
    Kubeconfig,
    Page,
    Plain,
    Rules,
)

rules_app = CommandGroup(help="Check, test, install and explain rules.")

Files = Annotated[list[Path], typer.Argument(help="YAML files or folders; - is standard input.")]


@rules_app.command("lint")
def lint(
    files: Files,
    output: Annotated[
        Findings,
        typer.Option("--output", "-o", help="Output format; sarif is for code hosts and editors."),
    ] = Findings.TEXT,
    strict: Annotated[bool, typer.Option("--strict", help="Treat advice as a finding.")] = False,
    known: Annotated[
        list[Path] | None,
        typer.Option("--known", metavar="PATH", help="Rules to load in addition; repeatable."),
    ] = None,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Load the rules of the cluster in addition.")
    ] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Check rules: each finding as file:line:col: severity: field: problem, remedy \\[code].

    Example: `kubenode rules lint my-rules/ --cluster`
    """
    from kubenode.cli.exits import explained, run
    from kubenode.cli.library import rules_from
    from kubenode.cli.lint import beside
    from kubenode.cli.lint import lint as work

    with explained():
        others = rules_from(known) if known else []
        conditions: tuple[str, ...] = ()
        if cluster:
            fleet = run(beside(kubeconfig, context))
            others, conditions = [*fleet.rules, *others], fleet.conditions
        code = work(files, output=output, strict=strict, known=others, conditions=conditions)
        raise typer.Exit(code)


@rules_app.command("test")
def test(
    files: Annotated[
        list[Path], typer.Argument(help="Test files (*.test.yaml, *.ruletest) or folders.")
    ],
    junit: Annotated[
        Path | None,
        typer.Option(
            "--junit", metavar="FILE", help="File to write with the results as JUnit XML."
        ),
    ] = None,
    only: Annotated[
        str,
        typer.Option(
            "--only", metavar="WORDS", help="Run only tests whose names contain this text."
        ),
    ] = "",
    engine: Annotated[
        Engines, typer.Option("--engine", help="Rule engines to use; reference alone is faster.")
    ] = Engines.BOTH,
    output: Annotated[Plain, typer.Option("--output", "-o")] = Plain.TABLE,
) -> None:
    """Run tests of rules: timelines of signals with the expected results.

    Example: `kubenode rules test my-rules/`
    """
    from kubenode.cli.exits import explained

    form: Literal["json", "table"] = "json" if output is Plain.JSON else "table"
    engine_choice: Literal["both", "reference"] = "both" if engine is Engines.BOTH else "reference"
    with explained():
        from kubenode.cli.simulation import commands

        raise typer.Exit(
            commands.test_rules(files, junit=junit, output=form, engine=engine_choice, only=only)
        )


@rules_app.command("schema")
def schema(
    kind: Annotated[
        str, typer.Option("--kind", help="Kind of the object, as in `kind:` of the file.")
    ] = ("NodeRemedier"),
) -> None:
    """Print the JSON schema of a kind, for editors that check and complete YAML."""
    from kubenode.cli.exits import explained
    from kubenode.cli.schema import schema as work

    with explained():
        raise typer.Exit(work(kind))


@rules_app.command("graph")
def graph(
    files: Annotated[
        list[Path] | None, typer.Argument(help="YAML files or folders; default: the rule library.")
    ] = None,
    rule: Annotated[
        list[str] | None,
        typer.Option(
            "--rule", help="Show only rules that lead to this rule or follow from it; repeatable."
        ),
    ] = None,
    guards: Annotated[
        bool, typer.Option("--guards", help="Show guards too; JSON always contains them.")
    ] = False,
    output: Annotated[Drawing, typer.Option("--output", "-o")] = Drawing.MERMAID,
) -> None:
    """Draw which signals and facts feed which rules."""
    from kubenode.cli.exits import explained
    from kubenode.cli.graph import command as graphs

    with explained():
        raise typer.Exit(graphs.command(files or (), only=rule or (), guards=guards, output=output))


@rules_app.command("import")
def import_(files: Files) -> None:
    """Print NodeHealthChecks and MachineHealthChecks of other systems as rules."""
    from kubenode.cli.exits import explained
    from kubenode.cli.rules_import import command

    with explained():
        raise typer.Exit(command(files))


@rules_app.command("cases")
def cases(
    files: Annotated[list[Path], typer.Argument(help="Files with labelled cases as JSON lines.")],
    rules: Rules = None,
    output: Annotated[
        Plain,
        typer.Option(
            "--output",
            "-o",
            help="Output format; json prints one prediction per line and the"
            " report on standard error.",
        ),
    ] = Plain.JSON,
) -> None:
    """Evaluate rules on labelled cases and score the results."""
    from kubenode.cli.exits import explained

    with explained():
        from kubenode.cli.simulation import commands

        form: Literal["json", "table"] = "json" if output is Plain.JSON else "table"
        raise typer.Exit(commands.score_cases(files, rules=rules or (), output=form))


@rules_app.command("coverage")
def coverage(
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="FOLDER", help="Folder with the fault tables of vendors."),
    ] = None,
    output: Annotated[Page, typer.Option("--output", "-o")] = Page.TABLE,
) -> None:
    """Show which rule covers each row of the fault tables of vendors."""
    from kubenode.cli.exits import explained

    with explained():
        from kubenode.cli.simulation import commands

        match output:
            case Page.TABLE:
                raise typer.Exit(commands.report_coverage(data=data, output="table"))
            case Page.JSON:
                raise typer.Exit(commands.report_coverage(data=data, output="json"))
            case Page.MARKDOWN:
                raise typer.Exit(commands.report_coverage(data=data, output="markdown"))


for _name, _command in (
    ("explain", running.explain),
    ("replay", running.replay),
    ("list", running.list_),
    ("install", running.install),
):
    rules_app.command(_name)(_command)
