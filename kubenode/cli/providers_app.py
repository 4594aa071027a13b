"""`kubenode providers ...`: checks the providers of machines."""

from typing import Annotated

import typer

from kubenode.cli.command_group import CommandGroup
from kubenode.cli.options import Context, Kubeconfig, ReportFormat, ReportOutput

providers_app = CommandGroup(help="Check the providers that control the machines of the cluster.")


@providers_app.command("check")
def check(
    nodes: Annotated[
        list[str] | None, typer.Argument(metavar="[NODE]...", help="Nodes to check; default: all.")
    ] = None,
    providers_file: Annotated[
        str,
        typer.Option(
            "--providers-file",
            envvar="KUBENODE_PROVIDERS_FILE",
            metavar="FILE",
            help="Providers file, as for `kubenode run remedy`.",
        ),
    ] = "",
    output: ReportOutput = ReportFormat.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Read the power state of the machine of each node from its provider.

    Nothing is changed. Ends with 1 if a node has no provider or its provider does not say.
    """
    from kubenode.cli.exits import run
    from kubenode.cli.providers_check import checked

    raise typer.Exit(run(checked(providers_file, nodes or [], output, kubeconfig, context)))
