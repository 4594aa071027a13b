"""Commands of `kubenode defender`. As in kubenode.cli.app, nothing heavy is imported here."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kubenode.cli.command_group import SYSTEM_NAMESPACE, CommandGroup
from kubenode.cli.options import Context, Kubeconfig, Namespace, Plain, ReportFormat

defender_app = CommandGroup(help="What Kube Defender allows, and why: limits, breakers, the queue.")

Url = Annotated[
    str,
    typer.Option("--url", envvar="KUBENODE_DEFENDER_URL", metavar="URL",
                 help="Of a running Kube Defender, several with commas; without it the cluster's"
                 " objects are read."),
]  # fmt: skip
TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", metavar="FILE", help="Our bearer token for Kube Defender."),
]
CaFile = Annotated[
    Path | None, typer.Option("--ca-file", metavar="FILE", help="Whom to trust for https.")
]
CertFile = Annotated[
    Path | None, typer.Option("--cert-file", metavar="FILE", help="Our client certificate.")
]
KeyFile = Annotated[
    Path | None, typer.Option("--key-file", metavar="FILE", help="The key of --cert-file.")
]
Output = Annotated[
    ReportFormat,
    typer.Option("--output", "-o", help="wide shows every scope and the open permits."),
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
    """Breakers, pauses, windows, budgets with their use, and who waits for a permit."""
    from kubenode.cli.defender_source import DefenderAddress
    from kubenode.cli.defender_status import status_command
    from kubenode.cli.exits import run

    address = DefenderAddress(url, token_file, ca_file, cert_file, key_file)
    raise typer.Exit(run(status_command(kubeconfig, context, address, output)))


@defender_app.command("thaw")
def thaw(
    why: Annotated[
        str, typer.Option("--why", help="Why it is safe: kept with your name.", show_default=False)
    ],
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """End a freeze of the control path by a person's word; breakers go on holding their scopes."""
    from kubenode.cli.defender_thaw import thaw_command
    from kubenode.cli.exits import run

    raise typer.Exit(run(thaw_command(kubeconfig, context, why)))


fleet_app = CommandGroup(help="Clusters that share one budget over Redis.")
defender_app.add_typer(fleet_app, name="fleet")


@fleet_app.command("forget")
def forget(
    cluster: str,
    why: Annotated[
        str, typer.Option("--why", help="Why it is gone: kept with your name.", show_default=False)
    ],
    namespace: Namespace = SYSTEM_NAMESPACE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Free what a cluster that has left the fleet for good still holds of the budget of all."""
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
    operation: Annotated[Acts, typer.Option("--operation", help="What would be done.")] = (
        Acts.REPAIR
    ),
    class_: Annotated[
        Classes, typer.Option("--class", help="Host leaves pods alone, Node takes it away.")
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
    """May a node be disrupted now? Every limit with its use, and what would have to change.

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
        typer.Option("--policy", metavar="FILE", help="YAML with DefenderPolicies; repeatable."),
    ],
    since: Annotated[
        str, typer.Option("--since", metavar="DURATION", help="How far back, up to 168h.")
    ] = "24h",
    alone: Annotated[
        bool,
        typer.Option("--alone", help="The cluster's other policies would be gone; else they stay."),
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
    """What a policy would have done with the last day's requests, beside the present ones.

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
