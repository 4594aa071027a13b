"""What can be typed after `kubenode rules`. As in kubenode.cli.app nothing heavy is imported."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from kubenode.cli.options import Context, Kubeconfig, Listing, Plain

rules_app = typer.Typer(no_args_is_help=True, help="Write, check, test and look after rules.")

Files = Annotated[list[Path], typer.Argument(help="YAML files, or folders of them.")]
Rules = Annotated[
    list[Path] | None,
    typer.Option("--rules", metavar="PATH", help="Rules; repeatable. Default: those that ship."),
]


class Findings(StrEnum):
    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


class Page(StrEnum):
    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"


class Engines(StrEnum):
    BOTH = "both"
    REFERENCE = "reference"


class Drawing(StrEnum):
    MERMAID = "mermaid"
    SVG = "svg"
    JSON = "json"


class InstallMode(StrEnum):
    ENFORCE = "Enforce"
    APPROVE = "Approve"
    DRY_RUN = "DryRun"
    OFF = "Off"


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
    """Check rules: each finding as file:line:col: severity: field: problem, remedy."""
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


@rules_app.command("list")
def list_(
    pack: Annotated[str | None, typer.Option("--pack", help="Of this pack only.")] = None,
    output: Annotated[Listing, typer.Option("--output", "-o")] = Listing.TABLE,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="What is installed, instead of what ships.")
    ] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """List the rules that ship, pack by pack, or with --cluster those that are installed."""
    from kubenode.cli.exits import explained, run
    from kubenode.cli.rules_listing import of_cluster, of_library

    if cluster:
        raise typer.Exit(run(of_cluster(kubeconfig, context, pack, output)))
    with explained():
        raise typer.Exit(of_library(pack, output))


@rules_app.command("install")
def install(
    packs: Annotated[
        list[str], typer.Argument(metavar="PACK...", help="Packs, PACK/RULE, or `all`.")
    ],
    mode: Annotated[
        InstallMode | None,
        typer.Option("--mode", help="DryRun for new rules; installed ones keep theirs."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="The API server judges, nothing is written.")
    ] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Install rules that ship. A rule that a person changed is left alone."""
    from kubenode.api.v1alpha1 import Mode
    from kubenode.cli.exits import run
    from kubenode.cli.rules_install import install as work

    chosen = Mode(mode.value) if mode is not None else None
    raise typer.Exit(run(work(packs, kubeconfig, context, mode=chosen, dry_run=dry_run)))


@rules_app.command("test")
def test(
    files: Annotated[list[Path], typer.Argument(help="*.test.yaml files, or folders of them.")],
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML too.")
    ] = None,
    only: Annotated[
        str, typer.Option("--only", metavar="WORDS", help="Tests whose names contain this.")
    ] = "",
    engine: Annotated[
        Engines, typer.Option("--engine", help="reference alone is quicker.")
    ] = Engines.BOTH,
    output: Annotated[Plain, typer.Option("--output", "-o")] = Plain.TABLE,
) -> None:
    """Run the tests of rules: timelines of signals, and what must come of them."""
    from kubenode.cli.exits import explained
    from kubenode.cli.replay.testing import command

    form: Literal["json", "table"] = "json" if output is Plain.JSON else "table"
    asked: Literal["both", "reference"] = "both" if engine is Engines.BOTH else "reference"
    with explained():
        raise typer.Exit(command(files, junit=junit, output=form, engine=asked, only=only))


@rules_app.command("cases")
def cases(
    files: Annotated[list[Path], typer.Argument(help="JSON lines of labelled cases.")],
    rules: Rules = None,
    output: Annotated[
        Plain, typer.Option("--output", "-o", help="json: a prediction a line, report on stderr.")
    ] = Plain.JSON,
    all_: Annotated[
        bool, typer.Option("--all", help="Also those that can be played but not yet be judged.")
    ] = False,
) -> None:
    """Run labelled cases through the code that decides, and score the answers."""
    from kubenode.cli.cases.command import command
    from kubenode.cli.exits import explained

    with explained():
        form: Literal["json", "table"] = "json" if output is Plain.JSON else "table"
        raise typer.Exit(command(files, rules=rules or (), output=form, all_=all_))


@rules_app.command("graph")
def graph(
    files: Annotated[
        list[Path] | None, typer.Argument(help="YAML files or folders; default: those that ship.")
    ] = None,
    rule: Annotated[
        list[str] | None,
        typer.Option("--rule", help="Only what leads to it and follows from it; repeatable."),
    ] = None,
    guards: Annotated[
        bool, typer.Option("--guards", help="Draw guards too; JSON always has them.")
    ] = False,
    output: Annotated[Drawing, typer.Option("--output", "-o")] = Drawing.MERMAID,
) -> None:
    """Draw which signals and facts feed which rules."""
    from kubenode.cli.exits import explained
    from kubenode.cli.graph import command as graphs

    with explained():
        drawing = graphs.Drawing(output.value)
        raise typer.Exit(
            graphs.command(files or (), only=rule or (), guards=guards, output=drawing)
        )


@rules_app.command("import")
def import_(files: Files) -> None:
    """Print NodeHealthChecks and MachineHealthChecks of other systems as rules."""
    from kubenode.cli.exits import explained
    from kubenode.cli.importing import command

    with explained():
        raise typer.Exit(command(files))


@rules_app.command("explain")
def explain(
    node: Annotated[str, typer.Option("--node", help="Name of the node.")],
    rule: Annotated[str, typer.Option("--rule", help="Name of the rule.")],
    rules: Annotated[
        list[Path] | None,
        typer.Option("--rules", metavar="PATH", help="As if these were loaded; repeatable."),
    ] = None,
    recordings: Annotated[
        list[str] | None,
        typer.Option("--from", metavar="RECORDING", help="Of a recording, not of a cluster."),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="MOMENT", help="In the recording: 5m, or an instant."),
    ] = None,
    output: Annotated[Plain, typer.Option("--output", "-o")] = Plain.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Why a rule matches a node or does not: each leaf with value, source and age."""
    from kubenode.cli.exits import explained, run

    paths = rules or ()
    if recordings:
        from kubenode.cli.rules_explain_recorded import of_recording

        with explained():
            raise typer.Exit(
                of_recording(node, rule, recordings, rules=paths, at=at, output=output)
            )
    from kubenode.cli.rules_explain import of_cluster

    raise typer.Exit(run(of_cluster(node, rule, kubeconfig, context, rules=paths, output=output)))


@rules_app.command("replay")
def replay(
    recordings: Annotated[
        list[str],
        typer.Option("--from", metavar="RECORDING", help="JSON lines, .zst or .gz; - is stdin."),
    ],
    rules: Rules = None,
    against: Annotated[
        list[Path] | None,
        typer.Option("--against", metavar="PATH", help="Print what these would do otherwise."),
    ] = None,
    policy: Annotated[
        Path | None, typer.Option("--policy", metavar="FILE", help="Limits of Kube Defender.")
    ] = None,
    output: Annotated[Plain, typer.Option("--output", "-o")] = Plain.TABLE,
) -> None:
    """Replay recorded signals: what would rules have done, when, and what held them?"""
    from kubenode.cli.exits import explained
    from kubenode.cli.replay.replaying import command

    form: Literal["json", "table"] = "json" if output is Plain.JSON else "table"
    with explained():
        code = command(
            recordings, rules=rules or (), against=against or (), policy=policy, output=form
        )
        raise typer.Exit(code)


def record(
    out: Annotated[
        str, typer.Option("--file", "-f", "-o", metavar="FILE", help="Packed if it ends in .zst.")
    ] = "-",
    for_: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="Default: until interrupted.")
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Write what happens to a cluster's nodes, for `kubenode rules replay`."""
    from kubenode.api.duration import parse_duration
    from kubenode.cli.exits import Exit, Refusal, explained, run
    from kubenode.cli.recording import command

    with explained():
        try:
            lasts = parse_duration(for_) if for_ is not None else None
        except ValueError as error:
            raise Refusal(f"--for: {error}", Exit.USAGE) from error
    raise typer.Exit(run(command(kubeconfig, context, out=out, lasts=lasts)))


@rules_app.command("coverage")
def coverage(
    data: Annotated[
        Path | None, typer.Option("--data", metavar="FOLDER", help="The vendors' tables.")
    ] = None,
    output: Annotated[Page, typer.Option("--output", "-o")] = Page.TABLE,
) -> None:
    """Say which row of the vendors' tables is served by which rule."""
    from kubenode.cli.coverage import command
    from kubenode.cli.exits import explained

    with explained():
        match output:
            case Page.TABLE:
                raise typer.Exit(command(data=data, output="table"))
            case Page.JSON:
                raise typer.Exit(command(data=data, output="json"))
            case Page.MARKDOWN:
                raise typer.Exit(command(data=data, output="markdown"))
