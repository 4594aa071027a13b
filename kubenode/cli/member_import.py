"""`kubenode member import` and `remove`: the identity in the member, the credentials here."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import typer

from captain.members.client import call_member
from captain.members.cluster import MemberUnreachable
from captain.members.kubeconfig import KubeconfigProblem, parse_kubeconfig
from captain.members.probe import MemberProbeResult, read_member
from captain.members.transport import MemberTransport
from kubenode.api.v1alpha1 import MemberCluster
from kubenode.cli.cluster import connected, require_crds, require_namespace
from kubenode.cli.exits import Refusal
from kubenode.cli.member_identity import (
    IDENTITY,
    IDENTITY_NAMESPACE,
    MemberEndpoint,
    account_path,
    build_identity,
    build_kubeconfig,
    build_member,
    build_secret,
    find_captain,
    is_imported,
    secret_path,
)
from kubenode.cli.tables import as_yaml
from kubenode.cli.uninstall_plan import confirm
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import APPLY_PATCH, Kube
from kubenode.runtime.kube.errors import AlreadyExists, NotFound

MANAGER = "kubenode-member-import"
PLURAL = MemberCluster.resource.plural
RIGHTS_SECONDS = 20.0
"""Time in which the API server of the member must have noticed new rights."""
Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """How a person reaches a cluster: kubeconfig and context, None for the defaults."""

    kubeconfig: str | None
    context: str | None


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """A cluster to import.

    namespace: that of the Secrets with kubeconfigs.
    server: URL by which Captain reaches the member; "" for that of the person's kubeconfig.
    lifetime: of the token; the member may shorten it.
    """

    name: str
    member: ClusterAccess
    captain: ClusterAccess
    namespace: str
    labels: Mapping[str, str]
    server: str
    lifetime: timedelta
    dry_run: bool


async def import_member(request: ImportRequest) -> None:
    """Create the identity in the member and store its credentials. Run again, it renews them."""
    endpoint = await find_endpoint(request.member, request.server)
    async with (
        connected(request.member.kubeconfig, request.member.context) as member,
        connected(request.captain.kubeconfig, request.captain.context) as captain,
    ):
        await require_crds(captain, {PLURAL})
        await _require_members_namespace(captain, request.namespace)
        await require_namespace(member, IDENTITY_NAMESPACE)
        uid = await read_captain_uid(captain)
        await _check_identity(member, uid)
        await _check_member(captain, request)
        if request.dry_run:
            typer.echo("---\n".join(as_yaml(obj) for obj in _plan(request, uid)), nl=False)
            return
        for path, obj in build_identity(uid):
            await apply_object(member, path, obj)
        token, expires = await create_token(member, request.lifetime)
        kubeconfig = build_kubeconfig(request.name, endpoint, token)
        observation = await wait_for_rights(request.name, kubeconfig)
        await _store(captain, request, kubeconfig)
    machines = "unknown" if observation.machines is None else observation.machines
    typer.echo(f"member {request.name}: Kubernetes {observation.version}, machines: {machines}")
    typer.echo(f"the token expires at {expires}; run this command again before that")


async def find_endpoint(access: ClusterAccess, server: str) -> MemberEndpoint:
    """Return how Captain reaches the member. Raises Refusal for a server without TLS."""
    from kubenode.runtime.kube.official import read_endpoint  # imports kubernetes: 1 s

    known = await read_endpoint(access.kubeconfig, access.context)
    server = (server or known.server).rstrip("/")
    if not server.startswith("https://"):
        raise Refusal(f"server {server!r} is no https:// URL; name another with --member-server")
    if not known.verified:
        raise Refusal(
            "the kubeconfig of the member skips the verification of TLS; set"
            " certificate-authority-data instead of insecure-skip-tls-verify"
        )
    return MemberEndpoint(server, known.authority, known.server_name)


async def _require_members_namespace(captain: Kube, namespace: str) -> None:
    if await read_or_none(captain, paths.namespace(namespace)) is None:
        raise Refusal(
            f"namespace {namespace} does not exist in Captain's cluster; set captain.enabled of the"
            " chart, or apply charts/kubenode/captain/rbac.yaml"
        )


async def read_captain_uid(captain: Kube) -> str:
    namespace = await captain.get(paths.namespace("kube-system"))
    return str(namespace["metadata"]["uid"])


async def _check_identity(member: Kube, uid: str) -> None:
    """Raise Refusal if the identity in the member exists and is not ours."""
    there = await read_or_none(member, account_path())
    if there is not None and find_captain(there) != uid:
        raise Refusal(
            f"ServiceAccount {IDENTITY_NAMESPACE}/{IDENTITY} of the member belongs to another"
            " Captain; run `kubenode member remove` there, or delete it"
        )


async def _check_member(captain: Kube, request: ImportRequest) -> None:
    """Raise Refusal if the MemberCluster or its Secret exists and was not imported."""
    for path in (paths.custom(PLURAL, request.name), secret_path(request.namespace, request.name)):
        there = await read_or_none(captain, path)
        if there is not None and not is_imported(there):
            raise Refusal(
                f"{there.get('kind', 'object')} {request.name} exists and was not created by this"
                " command; choose another NAME or delete it"
            )


async def read_or_none(kube: Kube, path: str) -> Object | None:
    try:
        return await kube.get(path)
    except NotFound:
        return None


def _plan(request: ImportRequest, uid: str) -> list[Object]:
    """Return what would be created, without credentials."""
    secret = build_secret(request.namespace, request.name, b"")
    del secret["data"]
    member = build_member(request.name, request.labels)
    return [*(obj for _, obj in build_identity(uid)), secret, member]


async def apply_object(kube: Kube, path: str, obj: Object) -> None:
    await kube.patch(path, obj, APPLY_PATCH, query={"fieldManager": MANAGER, "force": "true"})


async def create_token(member: Kube, lifetime: timedelta) -> tuple[str, str]:
    """Return a token of the identity and the time at which it expires."""
    spec = {"expirationSeconds": int(lifetime.total_seconds())}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    answer = await member.create(account_path("token"), body)
    status = answer["status"]
    return str(status["token"]), str(status["expirationTimestamp"])


async def wait_for_rights(name: str, kubeconfig: bytes) -> MemberProbeResult:
    """Probe the member as Captain will. Raises Refusal if it does not answer as it must."""
    try:
        kube = Kube(MemberTransport(parse_kubeconfig(kubeconfig)), attempts=1)
    except KubeconfigProblem as error:
        raise Refusal(f"Captain would refuse the kubeconfig: {error}") from error
    deadline = kube.clock.monotonic() + RIGHTS_SECONDS
    try:
        while True:
            observation, problem = await _probe(name, kube)
            if observation is not None and not problem:
                return observation
            if kube.clock.monotonic() > deadline:
                raise Refusal(f"the new credentials do not work: {problem}")
            await asyncio.sleep(0.5)
    finally:
        await kube.close()


async def _probe(name: str, kube: Kube) -> tuple[MemberProbeResult | None, str]:
    """Return the observation and what is wrong with it, "" for nothing."""
    try:
        observation = await call_member(name, read_member(kube))
    except MemberUnreachable as error:
        return None, str(error)
    return observation, ", ".join(observation.missing_rights)


async def _store(captain: Kube, request: ImportRequest, kubeconfig: bytes) -> None:
    """Write the Secret and the MemberCluster. The labels of an existing one stay."""
    secret = build_secret(request.namespace, request.name, kubeconfig)
    await apply_object(captain, secret_path(request.namespace, request.name), secret)
    try:
        await captain.create(paths.custom(PLURAL), build_member(request.name, request.labels))
    except AlreadyExists:
        labels = {"metadata": {"labels": dict(request.labels)}}
        await captain.patch(paths.custom(PLURAL, request.name), labels)


@dataclass(frozen=True, slots=True)
class RemoveRequest:
    """A member to remove. member: None leaves its identity in the member."""

    name: str
    member: ClusterAccess | None
    captain: ClusterAccess
    namespace: str
    yes: bool
    dry_run: bool


async def remove_member(request: RemoveRequest) -> None:
    """Delete what an import created: first the identity, so that its token ends, then the rest."""
    async with connected(request.captain.kubeconfig, request.captain.context) as captain:
        uid = await read_captain_uid(captain)
        here = await _find_here(captain, request)
        if request.member is None:
            await _delete(request, {"captain": (captain, here)})
            return
        async with connected(request.member.kubeconfig, request.member.context) as member:
            there = await _find_there(member, uid)
            await _delete(request, {"member": (member, there), "captain": (captain, here)})


async def _delete(request: RemoveRequest, plan: Mapping[str, tuple[Kube, list[str]]]) -> None:
    verb = "would delete" if request.dry_run else "deletes"
    for cluster, (_, doomed) in plan.items():
        typer.echo(f"{verb} in the cluster of the {cluster}: {', '.join(doomed) or 'nothing'}")
    if request.dry_run or not any(doomed for _, doomed in plan.values()):
        return
    confirm(yes=request.yes)
    for kube, doomed in plan.values():
        for path in doomed:
            await _delete_path(kube, path)


async def _find_here(captain: Kube, request: RemoveRequest) -> list[str]:
    """Return the paths of the MemberCluster and its Secret. Raises Refusal if not imported."""
    candidates = (paths.custom(PLURAL, request.name), secret_path(request.namespace, request.name))
    there = {path: await read_or_none(captain, path) for path in candidates}
    for path, obj in there.items():
        if obj is not None and not is_imported(obj):
            raise Refusal(f"{path} was not created by `kubenode member import`; delete it yourself")
    return [path for path, obj in there.items() if obj is not None]


async def _find_there(member: Kube, uid: str) -> list[str]:
    """Return the paths of the identity in the member that belongs to this Captain."""
    identity = [path for path, _ in reversed(build_identity(uid))]
    there = {path: await read_or_none(member, path) for path in identity}
    return [path for path, obj in there.items() if obj is not None and find_captain(obj) == uid]


async def _delete_path(kube: Kube, path: str) -> None:
    try:
        await kube.delete(path)
    except NotFound:
        return
