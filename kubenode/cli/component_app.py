"""Commands of `kubenode component`. As in kubenode.cli.app, nothing heavy is imported here."""

from typing import Annotated

import typer

from kubenode.cli.command_group import CommandGroup
from kubenode.cli.options import Context, Kubeconfig, Listing, ReportFormat

component_app = CommandGroup(
    help="What runs on the machines: see who has what, plan, hold a rollout or let it go on.",
)
Set = Annotated[str, typer.Argument(metavar="SET", help="Name of a MachineComponentSet.")]
Output = Annotated[Listing, typer.Option("-o", "--output", help="How it is printed.")]


@component_app.command("status")
def status(
    name: Annotated[
        str,
        typer.Argument(metavar="[COMPONENT]", help="One, with the machines to look at."),
    ] = "",
    output: Output = Listing.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Coverage and consistency: who lacks a component, and where versions, content or state differ.

    With a COMPONENT ends with 1 where a machine lacks it, differs or is ill.
    """
    from kubenode.cli.component_status import status_command
    from kubenode.cli.exits import run

    raise typer.Exit(run(status_command(name, output, kubeconfig, context)))


@component_app.command("sets")
def sets(
    output: Output = Listing.TABLE, kubeconfig: Kubeconfig = None, context: Context = None
) -> None:
    """The rollouts: which revision, which batch, and why one waits or has stopped."""
    from kubenode.cli.component_sets import sets_command
    from kubenode.cli.exits import run

    run(sets_command(output, kubeconfig, context))


@component_app.command("plan")
def plan(
    name: Set,
    component: Annotated[
        str,
        typer.Option(
            "--component", metavar="NAME", help="Another MachineComponent than the set's."
        ),
    ] = "",
    values: Annotated[
        list[str] | None,
        typer.Option("--set-value", metavar="NAME=VALUE", help="Beside the set's; repeatable."),
    ] = None,
    output: Annotated[
        ReportFormat, typer.Option("-o", "--output", help="How it is printed.")
    ] = ReportFormat.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """What the rollout would do now, or with another component or values. Writes nothing.

    Ends with 1 where something stands in its way.
    """
    from kubenode.cli.component_plan import plan_command
    from kubenode.cli.exits import run

    raise typer.Exit(run(plan_command(name, component, values or [], output, kubeconfig, context)))


@component_app.command("pause")
def pause(name: Set, kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """No batch starts any more; machines that are at work finish, drift is still put right."""
    from kubenode.cli.component_hold import hold_command
    from kubenode.cli.exits import run

    run(hold_command(name, {"paused": True}, kubeconfig, context))


@component_app.command("resume")
def resume(name: Set, kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Go on after a person's pause or freeze, or after the set stopped by itself.

    Machines that failed are tried once more.
    """
    from kubenode.cli.component_hold import resume_command
    from kubenode.cli.exits import run

    run(resume_command(name, kubeconfig, context))


@component_app.command("freeze")
def freeze(name: Set, kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Nothing is done for the set but certificates: no joiners, no drift."""
    from kubenode.cli.component_hold import hold_command
    from kubenode.cli.exits import run

    run(hold_command(name, {"frozen": True}, kubeconfig, context))
