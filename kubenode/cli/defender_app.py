"""Commands of `kubenode defender`. As in kubenode.cli.app, nothing heavy is imported here."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kubenode.cli.command_group import SYSTEM_NAMESPACE, CommandGroup
from kubenode.cli.options import Context, Kubeconfig, Namespace, Plain, ReportFormat

defender_app = CommandGroup(
    help="Show what Kube Defender allows and why: limits, breakers, the queue."
)

Url = Annotated[
    str,
    typer.Option("--url", envvar="KUBENODE_DEFENDER_URL", metavar="URL",
                 help="URL of Kube Defender; separate several with commas. Without"
            " it, the command reads the objects of the cluster."),
]  # fmt: skip
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="File with the bearer token to authenticate to Kube Defender.",
    ),
]
CaFile = Annotated[
    Path | None,
    typer.Option(
        "--ca-file",
        metavar="FILE",
        help="File with the certificate authorities to trust for HTTPS.",
    ),
]
CertFile = Annotated[
    Path | None,
    typer.Option("--cert-file", metavar="FILE", help="File with the client certificate."),
]
KeyFile = Annotated[
    Path | None,
    typer.Option("--key-file", metavar="FILE", help="File with the private key of --cert-file."),
]
Output = Annotated[
    ReportFormat,
    typer.Option(
        "--output", "-o", help="Output format; wide shows every scope and the open permits."
    ),
]


@defender_app.command("status")
def status(
    url: Url = "",
    token_file: TokenFile = None,
    ca_file: CaFile = None,
    cert_file: CertFile = None,
    key_file: KeyFile = None,
    output: Output = ReportFormat.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show breakers, pauses, windows, budgets with their use, and requests that wait for a
    permit.
    """
    from kubenode.cli.defender_source import DefenderAddress
    from kubenode.cli.defender_status import status_command
    from kubenode.cli.exits import run

    address = DefenderAddress(url, token_file, ca_file, cert_file, key_file)
    raise typer.Exit(run(status_command(kubeconfig, context, address, output)))


@defender_app.command("thaw")
def thaw(
    why: Annotated[
        str,
        typer.Option("--why", help="Why it is safe; stored with your name.", show_default=False),
    ],
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """End a freeze of the control path. Breakers stay in force."""
    from kubenode.cli.defender_thaw import thaw_command
    from kubenode.cli.exits import run

    raise typer.Exit(run(thaw_command(kubeconfig, context, why)))


fleet_app = CommandGroup(help="Show clusters that share one budget in Redis.")
defender_app.add_typer(fleet_app, name="fleet")


@fleet_app.command("forget")
def forget(
    cluster: str,
    why: Annotated[
        str,
        typer.Option(
            "--why", help="Why the cluster has left; stored with your name.", show_default=False
        ),
    ],
    namespace: Namespace = SYSTEM_NAMESPACE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Free the share of the budget that a cluster which has left the fleet still holds."""
    from kubenode.cli.defender_fleet import forget_command
    from kubenode.cli.exits import run

    raise typer.Exit(run(forget_command(kubeconfig, context, namespace, cluster, why)))


class Acts(StrEnum):
    """Values of Operation in kubenode.api.v1alpha1, which imports too slowly for --help."""

    REPAIR = "Repair"
    EVACUATE = "Evacuate"
    REPLACE = "Replace"
    ROLLOUT = "Rollout"
    SCALE_IN = "ScaleIn"
    DELETE = "Delete"


class Classes(StrEnum):
    HOST = "Host"
    PODS = "Pods"
    NODE = "Node"


@defender_app.command("explain")
def explain(
    node: str,
    operation: Annotated[Acts, typer.Option("--operation", help="Operation to explain.")] = (
        Acts.REPAIR
    ),
    class_: Annotated[
        Classes,
        typer.Option(
            "--class",
            help="Disruption class: Host does not evict pods, Node takes the node out of service.",
        ),
    ] = Classes.NODE,
    url: Url = "",
    token_file: TokenFile = None,
    ca_file: CaFile = None,
    cert_file: CertFile = None,
    key_file: KeyFile = None,
    output: Annotated[Plain, typer.Option("--output", "-o")] = Plain.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Explain whether a node may be disrupted now: each limit, its use, and what must change.

    Ends with 1 where the answer is no. Nothing is taken by asking.
    """
    from kubenode.api.v1alpha1 import Disruption, Operation
    from kubenode.cli.defender_explain import explain_command
    from kubenode.cli.defender_source import DefenderAddress
    from kubenode.cli.exits import run

    address = DefenderAddress(url, token_file, ca_file, cert_file, key_file)
    act, weight = Operation(operation.value), Disruption(class_.value)
    raise typer.Exit(run(explain_command(kubeconfig, context, address, node, act, weight, output)))


@defender_app.command("simulate")
def simulate(
    policy: Annotated[
        list[Path],
        typer.Option(
            "--policy", metavar="FILE", help="YAML file with DefenderPolicies; repeatable."
        ),
    ],
    since: Annotated[
        str, typer.Option("--since", metavar="DURATION", help="How far to look back, at most 168h.")
    ] = "24h",
    alone: Annotated[
        bool,
        typer.Option("--alone", help="Simulate without the other policies of the cluster."),
    ] = False,
    url: Url = "",
    token_file: TokenFile = None,
    ca_file: CaFile = None,
    cert_file: CertFile = None,
    key_file: KeyFile = None,
    output: Annotated[ReportFormat, typer.Option("--output", "-o")] = ReportFormat.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Compare a policy with the present ones on the requests of the last day.

    With --url the requests that Kube Defender remembers are played; without it what permits and
    jobs tell. A policy of a name that the cluster has takes its place. For recorded signals see
    kubenode rules replay --policy.
    """
    from kubenode.cli.defender_simulate import policies_from, simulate_command, since_from
    from kubenode.cli.defender_source import DefenderAddress
    from kubenode.cli.exits import explained, run

    with explained():
        new, back = policies_from(policy), since_from(since)
    address = DefenderAddress(url, token_file, ca_file, cert_file, key_file)
    work = simulate_command(kubeconfig, context, address, new, back, output, replace_all=alone)
    raise typer.Exit(run(work))
