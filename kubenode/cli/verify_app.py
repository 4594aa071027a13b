"""Flags of `kubenode verify`. As in kubenode.cli.app, nothing heavy is imported here."""

from typing import Annotated

import typer

from kubenode.cli.options import Context, Kubeconfig, ReportFormat


def verify(
    reference: Annotated[
        str,
        typer.Argument(metavar="KIND/NAME", help="Object, such as machinecomponentset/kubelet."),
    ],
    since: Annotated[
        str,
        typer.Option(
            "--since",
            metavar="TIME",
            help="Count harm since this time or duration; default: since the revision began.",
        ),
    ] = "",
    max_new_faults: Annotated[
        int,
        typer.Option(min=0, help="New faults on the nodes of the object that are still accepted."),
    ] = 0,
    output: Annotated[
        ReportFormat,
        typer.Option("--output", "-o", help="Output format; json and yaml are for programs."),
    ] = ReportFormat.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Check that a revision is complete, without false acts, new faults or failed inspections.

    For the gates of release pipelines. Writes nothing. Ends with 1 unless it is verified.

    Example: `kubenode verify machinecomponentset/kubelet -o json`
    """
    from kubenode.cli.exits import run
    from kubenode.cli.verify import VerifyRequest, verify_command

    request = VerifyRequest(reference, since, max_new_faults)
    raise typer.Exit(run(verify_command(kubeconfig, context, request, output)))
