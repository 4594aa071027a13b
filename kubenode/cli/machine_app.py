"""What can be typed after `kubenode machine`. As in kubenode.cli.app nothing heavy is imported."""

from enum import StrEnum
from typing import Annotated

import typer

from kubenode.cli.options import Context, Kubeconfig, Listing

machine_app = typer.Typer(
    no_args_is_help=True, help="Machines, one per host: see them, and let their agents in."
)
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of a Machine.")]


class Printed(StrEnum):
    """The token alone, with what else an agent must know, or an agent.toml (without secrets)."""

    TEXT = "text"
    JSON = "json"
    TOML = "toml"


@machine_app.command("show")
def show(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Default: all of them.")] = "",
    output: Annotated[
        Listing, typer.Option("-o", "--output", help="How it is printed.")
    ] = Listing.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """How the agents of Machines are: do they live, until when do they have a certificate?"""
    from kubenode.cli.exits import run
    from kubenode.cli.machine_showing import shown

    raise typer.Exit(run(shown(name, output, kubeconfig, context)))


@machine_app.command("token")
def token(
    name: Name,
    output: Annotated[
        Printed,
        typer.Option("-o", "--output", help="The token, all an agent needs, or its agent.toml."),
    ] = Printed.TEXT,
    server: Annotated[
        str,
        typer.Option(
            "--server", metavar="URL", help="As hosts reach the API server; else the kubeconfig's."
        ),
    ] = "",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Print the bootstrap token of a Machine, for the file bootstrap_token_file of its agent.

    It goes to standard output and nowhere else. Whoever has it can become this Machine's agent,
    once, until the agent has its certificate.
    """
    from kubenode.cli.exits import run
    from kubenode.cli.machine_tokens import print_token

    run(print_token(name, output, server, kubeconfig, context))


@machine_app.command("reissue")
def reissue(name: Name, kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Let a Machine's agent have a first certificate once more: the last one ended or is lost."""
    from kubenode.cli.exits import run
    from kubenode.cli.machine_tokens import reissue as work

    run(work(name, kubeconfig, context))
