"""The cluster's side of an import: checks that agents can join, and creates Machines."""

from dataclasses import dataclass

import msgspec

from kubenode.api.v1alpha1 import Machine
from kubenode.api.v1alpha1.machine import MachineOrigin
from kubenode.cli.exits import Refusal
from kubenode.cli.machine_import_rows import ImportRow, addresses_of
from kubenode.cli.machine_tokens import authority, server_url, waited_for
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import AlreadyExists, Forbidden, NotFound
from kubenode.runtime.kube.objects import Lease, structs
from kubenode.runtime.kube.paths import custom
from machine.access import PLURAL
from machine.certificates.wire import SigningRequest, requests
from machine.hostimport.preflight import Level, PreflightFinding
from machine.hostimport.signers import AGENT_SIGNER, operator_findings, signer_findings

LEADER = "kubenode-machine"
"""Lease of the Machine operator's leader, in the operator's namespace."""


class RequestList(msgspec.Struct):
    items: list[SigningRequest] = []


@dataclass(frozen=True, slots=True)
class Cluster:
    """The API server as hosts reach it.

    server: an https:// URL.
    ca: PEM of its certificate authority.
    """

    server: str
    ca: str


async def cluster_of(
    kube: Kube, server: str, kubeconfig: str | None, context: str | None
) -> Cluster:
    """Return the API server's URL and authority. Raises Refusal."""
    url = await server_url(server, kubeconfig, context)
    return Cluster(url, await authority(kube))


async def cluster_findings(kube: Kube, namespace: str) -> list[PreflightFinding]:
    """Check once for all hosts whether tokens are made and certificates are signed."""
    return [*await _signer(kube), *await _operator(kube, namespace)]


async def _signer(kube: Kube) -> list[PreflightFinding]:
    query = {"fieldSelector": f"spec.signerName={AGENT_SIGNER}", "limit": "500"}
    try:
        signing_requests = await kube.get(requests(), structs(RequestList), query)
    except Forbidden:
        return [_unknown("signer", "list certificatesigningrequests")]
    return signer_findings(signing_requests.items, kube.clock.now())


async def _operator(kube: Kube, namespace: str) -> list[PreflightFinding]:
    lease: Lease | None = None
    try:
        lease = await kube.get(paths.lease(namespace, LEADER), structs(Lease))
    except NotFound:
        pass
    except Forbidden:
        return [_unknown("Machine operator", f"get lease {LEADER} in {namespace}")]
    return operator_findings(lease, kube.clock.now())


def _unknown(what: str, right: str) -> PreflightFinding:
    how = "role kubenode-machine-operator of charts/kubenode/people.yaml has the right"
    return PreflightFinding(Level.WARNING, what, f"not looked at: you may not {right}", how)


async def made(kube: Kube, row: ImportRow) -> tuple[Machine, bool]:
    """Return the Machine of this host and whether it was created now.

    An existing Machine is not changed, except that one that gave up on its host waits for it again.
    Raises Refusal if the existing Machine belongs to another host.
    """
    name = row.machine_name
    addresses = await addresses_of(row)
    wanted = row.machine(addresses)
    try:
        return await kube.create(custom(PLURAL), wanted, Machine.from_server), True
    except AlreadyExists:
        there = await kube.get(custom(PLURAL, name), Machine.from_server)
    _same(row, there, addresses)
    return await waited_for(kube, there), False


def _same(row: ImportRow, there: Machine, addresses: list[str]) -> None:
    name, spec = there.metadata.name, there.spec
    if there.metadata.deletion_timestamp is not None:
        raise Refusal(f"Machine {name} is being deleted; run it again when that is over")
    if spec.origin is not MachineOrigin.IMPORT:
        raise Refusal(f"Machine {name} was made by a provider; say another --name")
    if not set(addresses) & set(spec.addresses):
        raise Refusal(
            f"Machine {name} has addresses {', '.join(spec.addresses)}, and {row.host} is"
            f" {', '.join(addresses)}: say another --name, or correct spec.addresses"
        )
    if row.node_name and row.node_name != there.node_name:
        how = "leave --node-name out, or correct spec.nodeName"
        raise Refusal(
            f"Machine {name} speaks of Node {there.node_name}, not {row.node_name}: {how}"
        )
    if row.node != spec.node:
        how = "say the same --node, or correct spec.node"
        raise Refusal(f"Machine {name} has node: {spec.node}, not {row.node}: {how}")
