"""Commands of `kubenode member`. As in kubenode.cli.app, nothing heavy is imported here."""

from typing import Annotated

import typer

from kubenode.cli.command_group import CommandGroup
from kubenode.cli.options import Context, Kubeconfig, Listing, ListingOutput, duration

MEMBERS_NAMESPACE = "kubenode-members"
PANEL = "Member cluster"

member_app = CommandGroup(help="Show, import, renew and remove the member clusters of Captain.")
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the MemberCluster.")]
MemberContext = Annotated[
    str | None,
    typer.Option(
        "--member-context",
        metavar="NAME",
        help="Context of an administrator of the member.",
        rich_help_panel=PANEL,
    ),
]
MemberKubeconfig = Annotated[
    str | None,
    typer.Option(
        "--member-kubeconfig",
        metavar="FILE",
        help="Kubeconfig of --member-context; default: that of Captain's cluster.",
        rich_help_panel=PANEL,
    ),
]
MembersNamespace = Annotated[
    str,
    typer.Option(
        "--members-namespace", metavar="NAME", help="Namespace of the Secrets with kubeconfigs."
    ),
]
TOKEN_LIFETIME = "2160h"
TokenLifetime = Annotated[
    str, typer.Option("--token-lifetime", metavar="DURATION", help="Lifetime of the token.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print what the command would do; write nothing.")
]


@member_app.command("list")
def list_(
    output: ListingOutput = Listing.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """List member clusters: whether they answer, their version and their number of Machines."""
    from kubenode.cli.exits import run
    from kubenode.cli.member_list import list_members

    run(list_members(output, kubeconfig, context))


@member_app.command("import")
def import_(
    name: Name,
    member_context: MemberContext = None,
    member_kubeconfig: MemberKubeconfig = None,
    label: Annotated[
        list[str] | None,
        typer.Option(
            "--label", metavar="KEY=VALUE", help="Label of the MemberCluster; repeatable."
        ),
    ] = None,
    member_server: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="URL by which Captain reaches the member; default: that of the kubeconfig.",
            rich_help_panel=PANEL,
        ),
    ] = "",
    token_lifetime: TokenLifetime = TOKEN_LIFETIME,
    members_namespace: MembersNamespace = MEMBERS_NAMESPACE,
    dry_run: DryRun = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Import a cluster: create an identity with few rights in it, and store its token here.

    Run it again to renew token and rights. --kubeconfig and --context name the cluster of Captain.

    Example: `kubenode member import sh-03 --member-context sh-03 --label stage=production`
    """
    from kubenode.cli.exits import run
    from kubenode.cli.member_import import ClusterAccess, ImportRequest, import_member

    _require_member(member_context, member_kubeconfig)
    request = ImportRequest(
        name=name,
        member=ClusterAccess(member_kubeconfig or kubeconfig, member_context),
        captain=ClusterAccess(kubeconfig, context),
        namespace=members_namespace,
        labels=_labels(label or []),
        server=member_server,
        lifetime=duration(token_lifetime, "--token-lifetime"),
        dry_run=dry_run,
    )
    run(import_member(request))


@member_app.command("renew")
def renew(
    name: Name,
    member_context: MemberContext = None,
    member_kubeconfig: MemberKubeconfig = None,
    token_lifetime: TokenLifetime = TOKEN_LIFETIME,
    members_namespace: MembersNamespace = MEMBERS_NAMESPACE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Renew the token of an imported member. Its rights and its address stay.

    The old token stays valid until it expires. To end it, remove the member and import it again.

    Example: `kubenode member renew sh-03 --member-context sh-03`
    """
    from kubenode.cli.exits import run
    from kubenode.cli.member_import import ClusterAccess
    from kubenode.cli.member_renewal import RenewRequest, renew_member

    _require_member(member_context, member_kubeconfig)
    request = RenewRequest(
        name=name,
        member=ClusterAccess(member_kubeconfig or kubeconfig, member_context),
        captain=ClusterAccess(kubeconfig, context),
        namespace=members_namespace,
        lifetime=duration(token_lifetime, "--token-lifetime"),
    )
    run(renew_member(request))


@member_app.command("remove")
def remove(
    name: Name,
    member_context: MemberContext = None,
    member_kubeconfig: MemberKubeconfig = None,
    keep_identity: Annotated[
        bool,
        typer.Option(
            "--keep-identity",
            help="Leave the identity in the member, where it cannot be reached.",
            rich_help_panel=PANEL,
        ),
    ] = False,
    members_namespace: MembersNamespace = MEMBERS_NAMESPACE,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
    dry_run: DryRun = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Remove a member: delete its identity in the member, its Secret and its MemberCluster.

    What was released to the member stays.
    """
    from kubenode.cli.exits import run
    from kubenode.cli.member_import import ClusterAccess, RemoveRequest, remove_member

    if not keep_identity:
        _require_member(member_context, member_kubeconfig)
    access = ClusterAccess(member_kubeconfig or kubeconfig, member_context)
    request = RemoveRequest(
        name=name,
        member=None if keep_identity else access,
        captain=ClusterAccess(kubeconfig, context),
        namespace=members_namespace,
        yes=yes,
        dry_run=dry_run,
    )
    run(remove_member(request))


def _require_member(context: str | None, kubeconfig: str | None) -> None:
    """Raise BadParameter without the name of the member's cluster: no default is safe."""
    if context is None and kubeconfig is None:
        raise typer.BadParameter(
            "name the cluster of the member with --member-context or --member-kubeconfig",
            param_hint="--member-context",
        )


def _labels(texts: list[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    for key, equals, _ in pairs:
        if not key or not equals:
            raise typer.BadParameter(f"{key!r} is no KEY=VALUE", param_hint="--label")
    return {key: value for key, _, value in pairs}
