"""Commands of `kubenode component`. As in kubenode.cli.app, nothing heavy is imported here."""

from typing import Annotated

import typer

from kubenode.cli.command_group import CommandGroup
from kubenode.cli.component_library_app import component_library_app
from kubenode.cli.options import (
    Context,
    Kubeconfig,
    Listing,
    ListingOutput,
    ReportFormat,
    ReportOutput,
)

component_app = CommandGroup(
    help="Show components of machines, and plan, pause and resume their rollouts.",
)
component_app.add_typer(component_library_app, name="library")
Set = Annotated[str, typer.Argument(metavar="SET", help="Name of a MachineComponentSet.")]


@component_app.command("status")
def status(
    name: Annotated[
        str,
        typer.Argument(
            metavar="[COMPONENT]", help="Show this one, with the machines that need attention."
        ),
    ] = "",
    output: ListingOutput = Listing.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show machines that lack a component, and machines whose version, content or state differs.

    With a COMPONENT ends with 1 where a machine lacks it, differs or is ill.
    """
    from kubenode.cli.component_status import status_command
    from kubenode.cli.exits import run

    raise typer.Exit(run(status_command(name, output, kubeconfig, context)))


@component_app.command("sets")
def sets(
    output: ListingOutput = Listing.TABLE, kubeconfig: Kubeconfig = None, context: Context = None
) -> None:
    """Show rollouts: revision, batch, and why one waits or has stopped."""
    from kubenode.cli.component_sets import sets_command
    from kubenode.cli.exits import run

    run(sets_command(output, kubeconfig, context))


@component_app.command("plan")
def plan(
    name: Set,
    component: Annotated[
        str,
        typer.Option(
            "--component",
            metavar="NAME",
            help="Plan with this MachineComponent instead of that of the set.",
        ),
    ] = "",
    values: Annotated[
        list[str] | None,
        typer.Option(
            "--set-value",
            metavar="NAME=VALUE",
            help="Value in addition to those of the set; repeatable.",
        ),
    ] = None,
    output: ReportOutput = ReportFormat.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show what the rollout would do now, or with another component or values. Writes nothing.

    Ends with 1 where something stands in its way.
    """
    from kubenode.cli.component_plan import plan_command
    from kubenode.cli.exits import run

    raise typer.Exit(run(plan_command(name, component, values or [], output, kubeconfig, context)))


@component_app.command("pause")
def pause(name: Set, kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Pause a rollout. No batch starts; machines in progress finish, and drift is still
    corrected.
    """
    from kubenode.cli.component_hold import hold_command
    from kubenode.cli.exits import run

    run(hold_command(name, {"paused": True}, kubeconfig, context))


@component_app.command("resume")
def resume(name: Set, kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Resume a rollout that was paused or frozen, or that stopped by itself.

    Machines that failed are tried once more.
    """
    from kubenode.cli.component_hold import resume_command
    from kubenode.cli.exits import run

    run(resume_command(name, kubeconfig, context))


@component_app.command("freeze")
def freeze(name: Set, kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Freeze a set: only certificates are renewed; new machines get nothing, and drift stays."""
    from kubenode.cli.component_hold import hold_command
    from kubenode.cli.exits import run

    run(hold_command(name, {"frozen": True}, kubeconfig, context))
