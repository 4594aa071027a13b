"""`kubenode rules` commands that read the library, a cluster or a recording."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from kubenode.cli.options import Context, InstallMode, Kubeconfig, Listing, Plain, Rules


def list_(
    pack: Annotated[
        str | None, typer.Option("--pack", help="Show only rules of this pack.")
    ] = None,
    output: Annotated[Listing, typer.Option("--output", "-o")] = Listing.TABLE,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Show installed rules instead of the rule library.")
    ] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """List the rules of the library by pack, or with --cluster the installed rules."""
    from kubenode.cli.exits import explained, run
    from kubenode.cli.rules_list import of_cluster, of_library

    if cluster:
        raise typer.Exit(run(of_cluster(kubeconfig, context, pack, output)))
    with explained():
        raise typer.Exit(of_library(pack, output))


def install(
    packs: Annotated[
        list[str], typer.Argument(metavar="PACK...", help="Packs, rules as PACK/RULE, or `all`.")
    ],
    mode: Annotated[
        InstallMode | None,
        typer.Option(
            "--mode", help="Mode of new rules; default: DryRun. Installed rules keep their mode."
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Let the API server validate the rules without storing them."
        ),
    ] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Install rules of the library. A rule that a person changed stays as it is.

    Example: `kubenode rules install gpu disk --mode DryRun`
    """
    from kubenode.api.v1alpha1 import Mode
    from kubenode.cli.exits import run
    from kubenode.cli.rules_install import install as work

    chosen = Mode(mode.value) if mode is not None else None
    raise typer.Exit(run(work(packs, kubeconfig, context, mode=chosen, dry_run=dry_run)))


def explain(
    node: Annotated[str, typer.Option("--node", help="Name of the node.")],
    rule: Annotated[str, typer.Option("--rule", help="Name of the rule.")],
    rules: Annotated[
        list[Path] | None,
        typer.Option(
            "--rules", metavar="PATH", help="Evaluate as if these rules were loaded; repeatable."
        ),
    ] = None,
    recordings: Annotated[
        list[str] | None,
        typer.Option("--from", metavar="RECORDING", help="Recording to read instead of a cluster."),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="MOMENT",
            help="Time in the recording: an offset such as 5m, or a timestamp.",
        ),
    ] = None,
    output: Annotated[Plain, typer.Option("--output", "-o")] = Plain.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Explain why a rule matches a node or not: each leaf with value, source and age."""
    from kubenode.cli.exits import explained, run

    paths = rules or ()
    if recordings:
        with explained():
            from kubenode.cli.simulation import commands

            raise typer.Exit(
                commands.explain_recording(
                    node, rule, recordings, rules=paths, at=at, output=output
                )
            )
    from kubenode.cli.rules_explain import of_cluster

    raise typer.Exit(run(of_cluster(node, rule, kubeconfig, context, rules=paths, output=output)))


def replay(
    recordings: Annotated[
        list[str],
        typer.Option(
            "--from",
            metavar="RECORDING",
            help="Recording as JSON lines, also .zst or .gz; - is standard input.",
        ),
    ],
    rules: Rules = None,
    against: Annotated[
        list[Path] | None,
        typer.Option(
            "--against",
            metavar="PATH",
            help="Rules to compare; print what they would do differently.",
        ),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option("--policy", metavar="FILE", help="File with the DefenderPolicies to apply."),
    ] = None,
    output: Annotated[Plain, typer.Option("--output", "-o")] = Plain.TABLE,
) -> None:
    """Replay recorded signals and print what rules would have done, when, and what held them."""
    from kubenode.cli.exits import explained

    form: Literal["json", "table"] = "json" if output is Plain.JSON else "table"
    with explained():
        from kubenode.cli.simulation import commands

        code = commands.replay(
            recordings, rules=rules or (), against=against or (), policy=policy, output=form
        )
        raise typer.Exit(code)


def record(
    out: Annotated[
        str,
        typer.Option(
            "--file",
            "-f",
            "-o",
            metavar="FILE",
            help="File to write; compressed if its name ends in .zst.",
        ),
    ] = "-",
    for_: Annotated[
        str | None,
        typer.Option(
            "--for", metavar="DURATION", help="Time to record; default: until interrupted."
        ),
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Record changes of the nodes of a cluster, for `kubenode rules replay`."""
    from kubenode.api.duration import parse_duration
    from kubenode.cli.exits import Exit, Refusal, explained, run

    with explained():
        from kubenode.cli.simulation import commands

        try:
            lasts = parse_duration(for_) if for_ is not None else None
        except ValueError as error:
            raise Refusal(f"--for: {error}", Exit.USAGE) from error
    raise typer.Exit(run(commands.record(kubeconfig, context, out=out, lasts=lasts)))
