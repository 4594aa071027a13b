"""Certificate requests of kubelets on a real API server, signed by a real controller-manager."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from support.control_plane import ControlPlane
from support.machine_requests import REQUESTS, a_request, as_object
from support.machine_world import closing, machine_world, until

from kubenode.runtime.kube.errors import Forbidden
from kubenode.runtime.tls.certificates import ends_at
from machine.certificates.case import DenialReason
from machine.certificates.kinds import KUBELET, SERVING
from machine.names import NODE_GROUP, NODE_USER, agent_user

pytestmark = pytest.mark.integration

CLIENT = {"signerName": KUBELET.signer, "expirationSeconds": None}
SERVER = {
    "signerName": SERVING.signer,
    "expirationSeconds": None,
    "usages": ["server auth", "digital signature"],
}
ADDRESS = "10.0.0.7"
"""Of every Machine of these tests."""


@contextmanager
def node_saying(cluster: ControlPlane, name: str, address: str) -> Iterator[None]:
    """A Node whose status has this address."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(node))
    told = {"status": {"addresses": [{"type": "InternalIP", "address": address}]}}
    cluster.kubectl("patch", "node", name, "--subresource=status", "-p", json.dumps(told))
    try:
        yield
    finally:
        cluster.kubectl("delete", "node", name)


def of_node(node: str, **subject: Any) -> bytes:
    return a_request(**{"cn": NODE_USER + node, "organizations": [NODE_GROUP], **subject})


async def test_a_kubelet_gets_its_first_by_token_and_the_next_and_its_servers_itself(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    async with machine_world(cluster, tmp_path) as world:
        await world.make("box", nodeName="box-node")
        async with closing(world.bearer((await world.token("box")).text)) as host:
            await host.create(REQUESTS, as_object("box-1", of_node("box-node"), **CLIENT))
            assert set(await world.decided("box-1")) == {"Approved"}
            got = await world.certificate("box-1")

            async def remembered() -> bool:
                bootstrap = (await world.machine("box")).status.bootstrap
                known = None if bootstrap is None else bootstrap.kubelet
                return known is not None and known.certificate_expires_at == ends_at(got)

            await until(remembered, "the end of the certificate is not in the status")
            await host.create(REQUESTS, as_object("box-2", of_node("box-node"), **CLIENT))
            assert (await world.decided("box-2"))["Denied"]["reason"] == DenialReason.LIVE
            agent = as_object("box-3", a_request(agent_user("box")))
            await host.create(REQUESTS, agent)
            assert set(await world.decided("box-3")) == {"Approved"}, "one for each kind"
        async with closing(world.node("box-node")) as kubelet:
            await kubelet.create(REQUESTS, as_object("box-4", of_node("box-node"), **CLIENT))
            serving = of_node("box-node", san=["box-node", ADDRESS])
            await kubelet.create(REQUESTS, as_object("box-5", serving, **SERVER))
            for name in ("box-4", "box-5"):
                assert set(await world.decided(name)) == {"Approved"}
            signed = x509.load_pem_x509_certificate(await world.certificate("box-5"))
        san = signed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert san.get_values_for_type(x509.DNSName) == ["box-node"]


async def test_f26_a_node_older_than_its_machine_renews_from_the_moment_it_is_imported(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    """It asked before: nobody of us knew the node, and its request waits for the Machine."""
    async with machine_world(cluster, tmp_path) as world:
        async with closing(world.node("old")) as kubelet:
            await kubelet.create(REQUESTS, as_object("old-1", of_node("old"), **CLIENT))
        await world.make("marker")
        async with closing(world.agent("marker")) as other:
            await other.create(REQUESTS, as_object("old-2", a_request(agent_user("marker"))))
        await world.decided("old-2")
        assert not (await world.kube.get(f"{REQUESTS}/old-1"))["status"], "left to others"
        await world.make("import-of-old", nodeName="old")
        assert set(await world.decided("old-1")) == {"Approved"}


async def test_a_token_gets_nobody_into_a_node_that_was_there_before_its_machine(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    """Who may make Machines and read their tokens would be that node."""
    async with machine_world(cluster, tmp_path) as world:
        with node_saying(cluster, "lives", ADDRESS):
            await asyncio.sleep(1.1)  # creation stamps have whole seconds
            await world.make("taker", nodeName="lives")
            async with closing(world.bearer((await world.token("taker")).text)) as host:
                await host.create(REQUESTS, as_object("taker-1", of_node("lives"), **CLIENT))
                denied = (await world.decided("taker-1"))["Denied"]
        assert denied["reason"] == DenialReason.OLDER_NODE
        assert "kubenode machine reissue taker" in denied["message"]


BY_TOKEN: dict[str, tuple[DenialReason, dict[str, Any], dict[str, Any]]] = {
    "an agent's": (
        DenialReason.SIGNER,
        {"cn": agent_user("kubelets"), "organizations": []},
        CLIENT,
    ),
    "a server's": (DenialReason.REQUESTER, {"san": ["kubelets"]}, SERVER),
    "of no Machine": (DenialReason.MACHINE, {"cn": f"{NODE_USER}nowhere"}, CLIENT),
    "of another Machine": (DenialReason.TOKEN, {"cn": f"{NODE_USER}neighbour"}, CLIENT),
    "an administrator's": (DenialReason.COMMON_NAME, {"cn": "admin"}, CLIENT),
}
BY_NODE: dict[str, tuple[DenialReason, dict[str, Any], dict[str, Any]]] = {
    "weak key": (DenialReason.KEY, {"key": ec.generate_private_key(ec.SECP384R1())}, CLIENT),
    "more groups": (DenialReason.ORGANIZATION, {"organizations": [NODE_GROUP, "x"]}, CLIENT),
    "client with names": (DenialReason.NAMES, {"san": ["kubelets"]}, CLIENT),
    "client for servers": (DenialReason.USAGES, {}, {**CLIENT, "usages": ["server auth"]}),
    "too long": (DenialReason.LIFE, {}, {**CLIENT, "expirationSeconds": 365 * 86400 + 1}),
    "server for clients": (
        DenialReason.USAGES,
        {"san": ["kubelets"]},
        {**SERVER, "usages": ["server auth", "client auth"]},
    ),
    "server of no name": (DenialReason.ADDRESS, {}, SERVER),
    "server of another address": (DenialReason.ADDRESS, {"san": ["kubelets", "10.0.0.8"]}, SERVER),
    "server of another name": (DenialReason.ADDRESS, {"san": ["kubernetes.default"]}, SERVER),
    "server by e-mail": (DenialReason.NAMES, {"san": ["kubelets", "root@kubelets"]}, SERVER),
    "server with a unit": (DenialReason.NAMES, {"san": ["kubelets"], "unit": "x"}, SERVER),
}


async def test_every_check_of_kubelets_has_a_request_that_it_denies(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    """Its Node names the wrong addresses too: they are not asked."""
    async with machine_world(cluster, tmp_path) as world:
        await world.make("kubelets")
        await world.make("neighbour")
        token = (await world.token("kubelets")).text
        await world.token("neighbour")
        said: dict[str, tuple[str, ...]] = {}
        with node_saying(cluster, "kubelets", "10.0.0.8"):
            async with (
                closing(world.bearer(token)) as host,
                closing(world.node("kubelets")) as kubelet,
            ):
                for asking, table in ((host, BY_TOKEN), (kubelet, BY_NODE)):
                    for what, (_, subject, spec) in table.items():
                        name = f"kubelets-{what.replace(' ', '-')}".replace("'", "").lower()
                        await asking.create(
                            REQUESTS, as_object(name, of_node("kubelets", **subject), **spec)
                        )
                        found = await world.decided(name)
                        said[what] = (*found, *(c["reason"] for c in found.values()))
        table = {**BY_TOKEN, **BY_NODE}
        assert said == {what: ("Denied", str(reason)) for what, (reason, _, _) in table.items()}


async def test_two_machines_of_one_node_get_it_nothing(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    async with machine_world(cluster, tmp_path) as world:
        await world.make("twin-1", nodeName="twin")
        await world.make("twin-2", nodeName="twin")
        await world.token("twin-1")
        await world.token("twin-2")
        async with closing(world.node("twin")) as kubelet:
            await kubelet.create(REQUESTS, as_object("twin-1", of_node("twin"), **CLIENT))
        assert (await world.decided("twin-1"))["Denied"]["reason"] == DenialReason.NODE


async def test_who_is_neither_its_token_nor_the_kubelet_is_denied(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    """Of kubelets the API server itself refuses those that ask for another node."""
    async with machine_world(cluster, tmp_path) as world:
        await world.make("wanted")
        await world.token("wanted")
        async with closing(world.agent("wanted")) as agent:
            await agent.create(REQUESTS, as_object("wanted-1", of_node("wanted"), **CLIENT))
        assert (await world.decided("wanted-1"))["Denied"]["reason"] == DenialReason.REQUESTER
        async with closing(world.node("thief")) as thief:
            with pytest.raises(Forbidden):
                await thief.create(REQUESTS, as_object("wanted-2", of_node("wanted"), **CLIENT))
