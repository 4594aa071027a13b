"""Commands of `kubenode freeze`. As in kubenode.cli.app, nothing heavy is imported here."""

from typing import Annotated

import typer

from kubenode.cli.command_group import CommandGroup
from kubenode.cli.options import Context, Kubeconfig, Namespace, ReportFormat

freeze_app = CommandGroup(
    help="The freeze of destructive acts after the cluster's data were restored from a backup.",
)


@freeze_app.command("show")
def show(
    namespace: Namespace = "kubenode-system",
    output: Annotated[
        ReportFormat, typer.Option("-o", "--output", help="How it is printed.")
    ] = ReportFormat.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Whether destructive acts are frozen, since when and why. Ends with 1 while they are."""
    from kubenode.cli.exits import run
    from kubenode.cli.freeze import show_command

    raise typer.Exit(run(show_command(namespace, output, kubeconfig, context)))


@freeze_app.command("lift")
def lift(
    why: Annotated[
        str, typer.Option("--why", metavar="TEXT", help="What was checked; for the audit log.")
    ],
    namespace: Namespace = "kubenode-system",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """End the freeze: machines may be deleted, stopped and replaced again.

    Look at `kubenode machine orphans` first: what was made since the backup has no Machine.
    """
    from kubenode.cli.exits import run
    from kubenode.cli.freeze import lift_command

    raise typer.Exit(run(lift_command(namespace, why, kubeconfig, context)))
