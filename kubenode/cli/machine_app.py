"""Commands of `kubenode machine`. As in kubenode.cli.app, nothing heavy is imported here."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kubenode.cli.command_group import SYSTEM_NAMESPACE, CommandGroup
from kubenode.cli.options import (
    Context,
    Kubeconfig,
    Listing,
    ListingOutput,
    Namespace,
    Plain,
    duration,
)

machine_app = CommandGroup(
    help="Show and import Machines, one for each host, and admit their agents."
)
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of a Machine.")]


class Printed(StrEnum):
    """The token alone, with what else an agent must know, or an agent.toml (without secrets)."""

    TEXT = "text"
    JSON = "json"
    TOML = "toml"


class NodeWanted(StrEnum):
    """Whether the host is, or becomes, a Node."""

    EXPECTED = "expected"
    JOIN = "join"
    NONE = "none"


Ssh = Annotated[
    str,
    typer.Option(
        "--ssh", metavar="USER@HOST:PORT", help="SSH address of the host; each part is optional."
    ),
]
Identity = Annotated[
    str,
    typer.Option(
        "--identity",
        metavar="FILE",
        help="File with the private SSH key; default: ssh-agent, ~/.ssh.",
    ),
]
KnownHosts = Annotated[
    str,
    typer.Option(
        "--known-hosts",
        metavar="FILE",
        help="File with the known host keys; default: ~/.ssh/known_hosts.",
    ),
]
Server = Annotated[
    str,
    typer.Option(
        "--server",
        metavar="URL",
        help="URL of the API server for hosts; default: that of the kubeconfig.",
    ),
]


@machine_app.command("show")
def show(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="Machine to show; default: all.")
    ] = "",
    output: ListingOutput = Listing.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show Machines; for a single one also its conditions and components, and what it waits for.

    Ends with 1 for one whose agent does not live.
    """
    from kubenode.cli.exits import run
    from kubenode.cli.machine_show import shown

    raise typer.Exit(run(shown(name, output, kubeconfig, context)))


@machine_app.command("list")
def list_(
    output: ListingOutput = Listing.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """List Machines with phase, Node, agent and certificate; with `-o wide` also their
    components.
    """
    from kubenode.cli.exits import run
    from kubenode.cli.machine_show import shown

    run(shown("", output, kubeconfig, context))


@machine_app.command("orphans")
def orphans(
    output: ListingOutput = Listing.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """List instances of a provider that have the tag of this cluster and belong to no Machine.

    Ends with 1 while there are any.
    """
    from kubenode.cli.exits import run
    from kubenode.cli.machine_orphans import orphans_command

    raise typer.Exit(run(orphans_command(output, kubeconfig, context)))


@machine_app.command("token")
def token(
    name: Name,
    output: Annotated[
        Printed,
        typer.Option(
            "-o",
            "--output",
            help="Output format: the token, everything that an agent needs, or its agent.toml.",
        ),
    ] = Printed.TEXT,
    server: Server = "",
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
    """Allow the agent of a Machine to request a first certificate again, after it expired or
    was lost.
    """
    from kubenode.cli.exits import run
    from kubenode.cli.machine_tokens import reissue as work

    run(work(name, kubeconfig, context))


@machine_app.command("import")
def import_(
    host: Annotated[
        str,
        typer.Argument(
            metavar="[HOST]", help="Name or address of the host, as this computer resolves it."
        ),
    ] = "",
    name: Annotated[
        str,
        typer.Option("--name", help="Name of the Machine; default: HOST, unless it is an address."),
    ] = "",
    ssh: Ssh = "",
    identity: Identity = "",
    known_hosts: KnownHosts = "",
    address: Annotated[
        list[str] | None,
        typer.Option(
            "--address",
            metavar="IP",
            help="Address of the host; repeatable. Default: that of HOST.",
        ),
    ] = None,
    node_name: Annotated[
        str, typer.Option("--node-name", help="Name of the Node; default: that of the Machine.")
    ] = "",
    label: Annotated[
        list[str] | None,
        typer.Option(
            "--label", metavar="KEY=VALUE", help="Label of the Machine and the Node; repeatable."
        ),
    ] = None,
    observe: Annotated[
        bool, typer.Option("--observe", help="Report only; change nothing.")
    ] = False,
    node: Annotated[
        NodeWanted,
        typer.Option(
            "--node",
            help="Whether the host has a Node; join: a component installs its kubelet; none: a host"
            " outside Kubernetes.",
        ),
    ] = NodeWanted.EXPECTED,
    agent_package: Annotated[
        list[Path] | None,
        typer.Option(
            "--agent-package",
            metavar="PATH",
            help="Package of the agent to copy to the host, or a folder with packages, from `make"
            " packages`; repeatable. Each host gets the one of its format and architecture.",
        ),
    ] = None,
    agent_url: Annotated[
        str,
        typer.Option(
            "--agent-url",
            metavar="URL",
            help="URL from which the host fetches the package of the agent.",
        ),
    ] = "",
    agent_sha256: Annotated[
        str,
        typer.Option("--agent-sha256", metavar="HEX", help="SHA-256 of the file at --agent-url."),
    ] = "",
    server: Server = "",
    file: Annotated[
        Path | None,
        typer.Option(
            "--file",
            metavar="HOSTS.yaml",
            help="File with many hosts; the other flags are defaults for them.",
        ),
    ] = None,
    concurrency: Annotated[
        int,
        typer.Option(
            "--concurrency",
            min=1,
            max=100,
            help="Number of hosts of a file to import at the same time.",
        ),
    ] = 10,
    timeout: Annotated[
        str,
        typer.Option(
            "--timeout", metavar="DURATION", help="Time to wait until a Machine is Running."
        ),
    ] = "20m",
    print_cloud_init: Annotated[
        bool,
        typer.Option(
            "--print-cloud-init",
            help="Print user data for the first boot of the host. It contains a secret.",
        ),
    ] = False,
    print_script: Annotated[
        bool,
        typer.Option("--print-script", help="Print a shell script to run on the host as root."),
    ] = False,
    namespace: Namespace = SYSTEM_NAMESPACE,
    output: Annotated[
        Plain, typer.Option("-o", "--output", help="Output format of the report.")
    ] = Plain.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Import an existing host: create its Machine, install the agent, and wait until it is Running.

    Nothing is changed before a look at the host finds nothing against it. Run it again to go on
    where it was interrupted.
    """
    from kubenode.cli.exits import explained, run
    from kubenode.cli.machine_import import (
        How,
        download_of,
        given_rows,
        import_command,
        print_command,
    )

    given: dict[str, object] = {
        "name": name,
        "ssh": ssh,
        "identity": identity,
        "knownHosts": known_hosts,
        "addresses": address or [],
        "nodeName": node_name,
        "observe": observe,
        "node": node.name.capitalize(),
    }
    with explained():
        rows = given_rows(host, file, given, label or [])
        how = How(
            agent_package or (),
            download_of(agent_url, agent_sha256),
            server,
            namespace,
            duration(timeout, "--timeout").total_seconds(),
            concurrency,
            output,
        )
    if not (print_cloud_init or print_script):
        raise typer.Exit(run(import_command(rows, how, kubeconfig, context)))
    if file is not None or (print_cloud_init and print_script) or agent_package:
        raise typer.BadParameter(
            "one of both, for one HOST, and without --agent-package: --agent-url instead",
            param_hint="--print-cloud-init, --print-script",
        )
    work = print_command(rows[0], how, kubeconfig, context, cloud_init=print_cloud_init)
    raise typer.Exit(run(work))


@machine_app.command("export")
def export(
    name: Name,
    ssh: Ssh = "",
    identity: Identity = "",
    known_hosts: KnownHosts = "",
    uninstall: Annotated[
        bool,
        typer.Option(
            "--uninstall",
            help="Remove the components of the host too; default: as the Machine specifies.",
        ),
    ] = False,
    timeout: Annotated[
        str,
        typer.Option(
            "--timeout", metavar="DURATION", help="Time to wait until the Machine is deleted."
        ),
    ] = "40m",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Release a host: delete its Machine, remove the agent, and print what remains."""
    from kubenode.cli.exits import run
    from kubenode.cli.machine_export import SshAddress, export_command

    longest = duration(timeout, "--timeout").total_seconds()
    address = SshAddress(ssh, identity, known_hosts)
    work = export_command(name, address, longest, kubeconfig, context, uninstall=uninstall)
    raise typer.Exit(run(work))
