"""`kubenode providers ...`: checks the providers of machines."""

from typing import Annotated

import typer

from kubenode.cli.command_group import CommandGroup
from kubenode.cli.options import Context, Kubeconfig, ReportFormat

providers_app = CommandGroup(help="Who runs the machines of the cluster, and can switch them.")


@providers_app.command("check")
def check(
    nodes: Annotated[
        list[str] | None, typer.Argument(metavar="[NODE]...", help="Default: all nodes.")
    ] = None,
    providers_file: Annotated[
        str,
        typer.Option(
            "--providers-file",
            envvar="KUBENODE_PROVIDERS_FILE",
            metavar="FILE",
            help="As of `kubenode run remedy`.",
        ),
    ] = "",
    output: Annotated[ReportFormat, typer.Option("-o", "--output", help="How it is printed.")] = (
        ReportFormat.TABLE
    ),
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Ask for the power of each node's machine: which provider has it, and does it answer?

    Nothing is changed. Ends with 1 if a node has no provider or its provider does not say.
    """
    from kubenode.cli.exits import run
    from kubenode.cli.providers_check import checked

    raise typer.Exit(run(checked(providers_file, nodes or [], output, kubeconfig, context)))
