"""Commands of `kubenode release`. As in kubenode.cli.app, nothing heavy is imported here."""

from pathlib import Path
from typing import Annotated

import typer

from kubenode.cli.command_group import CommandGroup
from kubenode.cli.options import (
    Context,
    Kubeconfig,
    Listing,
    ListingOutput,
    ReportFormat,
    ReportOutput,
)

release_app = CommandGroup(
    help="Release rules, components and policies to member clusters, stage by stage."
)
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the Release.")]
Files = Annotated[
    list[Path],
    typer.Option("--file", "-f", metavar="PATH", help="File or folder of the payload; repeatable."),
]
Pipeline = Annotated[
    str, typer.Option("--pipeline", metavar="NAME", help="Name of the ReleasePipeline.")
]


@release_app.command("plan")
def plan(
    file: Files,
    pipeline: Pipeline,
    output: ReportOutput = ReportFormat.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show the clusters that a release would change, in order. Writes nothing.

    Ends with 1 if the payload or the pipeline is invalid.

    Example: `kubenode release plan -f rules/ --pipeline online`
    """
    from kubenode.cli.exits import run
    from kubenode.cli.release_start import plan_release

    raise typer.Exit(run(plan_release(file, pipeline, output, kubeconfig, context)))


@release_app.command("start")
def start(
    name: Name,
    file: Files,
    pipeline: Pipeline,
    force: Annotated[
        bool, typer.Option("--force-conflicts", help="Take fields that other managers own.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Have the API server validate; store nothing.")
    ] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Create a Release from files, with the digest of its payload. Captain starts it.

    Example: `kubenode release start rules-7 -f rules/ --pipeline online`
    """
    from kubenode.cli.exits import run
    from kubenode.cli.release_start import StartRequest, start_release

    request = StartRequest(name, tuple(file), pipeline, force, dry_run)
    run(start_release(request, kubeconfig, context))


@release_app.command("status")
def status(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="Show this release with its clusters.")
    ] = "",
    output: ListingOutput = Listing.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show releases, or the clusters of one release."""
    from kubenode.cli.exits import run
    from kubenode.cli.release_report import show_status

    run(show_status(name, output, kubeconfig, context))


@release_app.command("explain")
def explain(
    name: Name,
    output: ReportOutput = ReportFormat.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Explain why a release waits, stopped or ended, and what you can do."""
    from kubenode.cli.exits import run
    from kubenode.cli.release_report import explain_release

    run(explain_release(name, output, kubeconfig, context))


@release_app.command("approve")
def approve(
    name: Name,
    stage: Annotated[str, typer.Argument(metavar="STAGE", help="Name of the stage.")],
    enforce: Annotated[
        bool,
        typer.Option("--enforce", help="Approve that its rules in DryRun act, not its start."),
    ] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Approve a stage. Your user name is stored with the approval."""
    from kubenode.cli.exits import run
    from kubenode.cli.release_control import approve_stage

    subject = "Enforce" if enforce else "Start"
    run(approve_stage(name, stage, subject, kubeconfig, context))


@release_app.command("pause")
def pause(name: Name, kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Pause a release: nothing more is written. What members have begun goes on there."""
    _set_state(name, "Pause", kubeconfig, context)


@release_app.command("resume")
def resume(name: Name, kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Let a release go on that a person or failed clusters stopped. Failed clusters are tried
    again.
    """
    from kubenode.cli.exits import run
    from kubenode.cli.release_control import resume_release

    run(resume_release(name, kubeconfig, context))


@release_app.command("rollback")
def rollback(name: Name, kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Restore what stood in each cluster before the release. Also after its end."""
    _set_state(name, "Rollback", kubeconfig, context)


@release_app.command("abort")
def abort(name: Name, kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """End a release where it is: nothing more is written, and nothing is restored."""
    _set_state(name, "Abort", kubeconfig, context)


def _set_state(name: str, state: str, kubeconfig: str | None, context: str | None) -> None:
    from kubenode.cli.exits import run
    from kubenode.cli.release_control import change_state

    run(change_state(name, state, kubeconfig, context))
