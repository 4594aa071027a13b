"""Commands of `kubenode freeze`. As in kubenode.cli.app, nothing heavy is imported here."""

from typing import Annotated

import typer

from kubenode.cli.command_group import CommandGroup
from kubenode.cli.options import Context, Kubeconfig, Namespace, ReportFormat, ReportOutput

freeze_app = CommandGroup(
    help="Show and lift the freeze of destructive acts that follows a"
    " restore of the cluster from a backup.",
)


@freeze_app.command("show")
def show(
    namespace: Namespace = "kubenode-system",
    output: ReportOutput = ReportFormat.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show whether destructive acts are frozen, since when and why. Exit code 1 if they are."""
    from kubenode.cli.exits import run
    from kubenode.cli.freeze import show_command

    raise typer.Exit(run(show_command(namespace, output, kubeconfig, context)))


@freeze_app.command("lift")
def lift(
    why: Annotated[
        str,
        typer.Option("--why", metavar="TEXT", help="What you checked; stored in the audit log."),
    ],
    namespace: Namespace = "kubenode-system",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Lift the freeze. Machines may be deleted, stopped and replaced again.

    Look at `kubenode machine orphans` first: what was made since the backup has no Machine.
    """
    from kubenode.cli.exits import run
    from kubenode.cli.freeze import lift_command

    raise typer.Exit(run(lift_command(namespace, why, kubeconfig, context)))
