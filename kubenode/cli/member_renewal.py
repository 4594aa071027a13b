"""`kubenode member renew`: a new token for an imported member. Rights and endpoint stay."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import typer

from captain.members.kubeconfig import KubeconfigProblem, parse_kubeconfig
from kubenode.api.meta import format_time
from kubenode.cli.cluster import connected, require_crds
from kubenode.cli.exits import Refusal
from kubenode.cli.member_identity import (
    IDENTITY,
    IDENTITY_NAMESPACE,
    RENEWED_AT,
    RENEWED_BY,
    MemberEndpoint,
    account_path,
    build_kubeconfig,
    build_secret,
    find_captain,
    is_imported,
    secret_path,
)
from kubenode.cli.member_import import (
    PLURAL,
    ClusterAccess,
    apply_object,
    create_token,
    read_captain_uid,
    read_or_none,
    wait_for_rights,
)
from kubenode.cli.pause import caller
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube


@dataclass(frozen=True, slots=True)
class RenewRequest:
    """A member whose token to renew.

    namespace: that of the Secrets with kubeconfigs.
    lifetime: of the token; the member may shorten it.
    """

    name: str
    member: ClusterAccess
    captain: ClusterAccess
    namespace: str
    lifetime: timedelta


async def renew_member(request: RenewRequest) -> None:
    """Store a new token of the member's identity. The old one stays valid until it expires.

    Nothing is stored unless the new token works at the endpoint that Captain uses.
    """
    async with (
        connected(request.member.kubeconfig, request.member.context) as member,
        connected(request.captain.kubeconfig, request.captain.context) as captain,
    ):
        await require_crds(captain, {PLURAL})
        endpoint = await _read_endpoint(captain, request)
        await _require_identity(member, request.name, await read_captain_uid(captain))
        token, expires = await create_token(member, request.lifetime)
        kubeconfig = build_kubeconfig(request.name, endpoint, token)
        await wait_for_rights(request.name, kubeconfig)
        secret = build_secret(request.namespace, request.name, kubeconfig)
        await apply_object(captain, secret_path(request.namespace, request.name), secret)
        await _record(captain, request.name)
    typer.echo(f"member {request.name}: the new token expires at {expires}")


async def _read_endpoint(captain: Kube, request: RenewRequest) -> MemberEndpoint:
    """Return the endpoint of the stored kubeconfig. Raises Refusal for one of another author."""
    path = paths.custom(PLURAL, request.name)
    await _read_imported(captain, path, request.name)
    path = secret_path(request.namespace, request.name)
    return parse_endpoint(request.name, await _read_imported(captain, path, request.name))


async def _read_imported(captain: Kube, path: str, name: str) -> dict[str, Any]:
    """Return an object of an import. Raises Refusal if there is none, or of another author."""
    obj = await read_or_none(captain, path)
    if obj is None:
        raise Refusal(f"{path} does not exist; run `kubenode member import {name}`")
    if not is_imported(obj):
        text = "was not created by `kubenode member import`; renew its credentials yourself"
        raise Refusal(f"{path} {text}")
    return obj


def parse_endpoint(name: str, secret: Mapping[str, Any]) -> MemberEndpoint:
    """Return the endpoint that a Secret holds. Raises Refusal."""
    raw = base64.b64decode((secret.get("data") or {}).get("kubeconfig", ""))
    try:
        stored = parse_kubeconfig(raw)
    except KubeconfigProblem as problem:
        raise Refusal(
            f"the kubeconfig of member {name} is unusable: {problem}; run `kubenode member import"
            f" {name}`"
        ) from problem
    return MemberEndpoint(stored.server, stored.authority, stored.server_name)


async def _require_identity(member: Kube, name: str, captain: str) -> None:
    """Raise Refusal unless the identity in the member exists and belongs to this Captain."""
    account = await read_or_none(member, account_path())
    if account is None or find_captain(account) != captain:
        owner = "does not exist" if account is None else "belongs to another Captain"
        raise Refusal(
            f"ServiceAccount {IDENTITY_NAMESPACE}/{IDENTITY} of the member {owner}: is"
            f" --member-context the cluster {name}? `kubenode member import` creates it"
        )


async def _record(captain: Kube, name: str) -> None:
    """Write who renewed the token, and when, to the MemberCluster."""
    renewal = {RENEWED_BY: await caller(captain), RENEWED_AT: format_time(captain.clock.now())}
    await captain.patch(paths.custom(PLURAL, name), {"metadata": {"annotations": renewal}})
