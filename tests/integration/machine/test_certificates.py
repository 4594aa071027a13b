"""Certificate requests of agents on a real API server: what is granted, and every way to a no."""

from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from support.control_plane import ControlPlane
from support.machine_requests import REQUESTS, a_request, as_object
from support.machine_world import MachineWorld, closing, machine_world, until

from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import KubeError, ServerUnreachable, Unauthorized
from kubenode.runtime.tls.certificates import ends_at
from machine.bootstrap.tokens import new_id, secret
from machine.certificates.case import DenialReason
from machine.certificates.checks import MOST_REQUESTS
from machine.names import MACHINE_UID, agent_user, secret_name

pytestmark = pytest.mark.integration


@asynccontextmanager
async def asking(world: MachineWorld, machine: str) -> AsyncIterator[Kube]:
    """A client with the Machine's bootstrap token."""
    async with closing(world.bearer((await world.token(machine)).text)) as kube:
        yield kube


async def test_a_token_gives_one_certificate_and_the_certificate_the_next(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    async with machine_world(cluster, tmp_path) as world:
        await world.make("one")
        async with asking(world, "one") as host:
            await host.create(REQUESTS, as_object("one-1", a_request(agent_user("one"))))
            assert set(await world.decided("one-1")) == {"Approved"}
            got = await world.certificate("one-1")

            async def remembered() -> bool:
                bootstrap = (await world.machine("one")).status.bootstrap
                assert bootstrap is not None
                return bootstrap.certificate_expires_at == ends_at(got) and not bootstrap.request_id

            await until(remembered, "the end of the certificate is not in the status")
            await host.create(REQUESTS, as_object("one-2", a_request(agent_user("one"))))
            no = (await world.decided("one-2"))["Denied"]
            assert no["reason"] == DenialReason.LIVE
            assert "kubenode machine reissue one" in no["message"]
            assert "CertificateIsLive" in await world.condition("one", "CertificateDenied")
        async with closing(world.agent("one")) as agent:
            await agent.create(REQUESTS, as_object("one-3", a_request(agent_user("one"))))
            assert set(await world.decided("one-3")) == {"Approved"}
            later = await world.certificate("one-3")
        assert ends_at(later) >= ends_at(got)


HONEST = agent_user("asked")
WRONG: dict[str, tuple[DenialReason, dict[str, Any], dict[str, Any]]] = {
    "name of a kubelet": (
        DenialReason.COMMON_NAME,
        {"cn": "system:node:asked", "organizations": ["system:nodes"]},
        {},
    ),
    "small RSA key": (
        DenialReason.KEY,
        {"key": rsa.generate_private_key(public_exponent=65537, key_size=1024)},
        {},
    ),
    "key of another curve": (
        DenialReason.KEY,
        {"key": ec.generate_private_key(ec.SECP384R1())},
        {},
    ),
    "name of a user": (DenialReason.COMMON_NAME, {"cn": "admin"}, {}),
    "no name": (DenialReason.COMMON_NAME, {"cn": ""}, {}),
    "more groups": (DenialReason.ORGANIZATION, {"organizations": ["kubenode:agents", "x"]}, {}),
    "no group": (DenialReason.ORGANIZATION, {"organizations": []}, {}),
    "further names": (DenialReason.NAMES, {"san": "kubernetes.default"}, {}),
    "further parts of the subject": (DenialReason.NAMES, {"unit": "x"}, {}),
    "too long": (DenialReason.LIFE, {}, {"expirationSeconds": 30 * 86400 + 1}),
    "no end": (DenialReason.LIFE, {}, {"expirationSeconds": None}),
    "another usage": (DenialReason.USAGES, {}, {"usages": ["client auth", "signing"]}),
    "not for clients": (DenialReason.USAGES, {}, {"usages": ["digital signature"]}),
    "no such Machine": (DenialReason.MACHINE, {"cn": agent_user("nobody")}, {}),
    "another Machine": (DenialReason.TOKEN, {"cn": agent_user("other")}, {}),
}
"""What is wrong: the reason of the no, what the request says instead, and its object."""


async def test_every_check_has_a_request_that_it_denies(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    """Invariant 4: used, expired and foreign tokens have tests of their own below."""
    async with machine_world(cluster, tmp_path) as world:
        await world.make("asked")
        await world.make("other")
        await world.token("other")
        said: dict[str, tuple[str, ...]] = {}
        async with asking(world, "asked") as host:
            for number, (_, subject, spec) in enumerate(WRONG.values()):
                pem = a_request(**{"cn": HONEST, **subject})
                await host.create(REQUESTS, as_object(f"wrong-{number}", pem, **spec))
            for number, what in enumerate(WRONG):
                found = await world.decided(f"wrong-{number}")
                said[what] = (*found, *(c["reason"] for c in found.values()))
        assert said == {what: ("Denied", str(reason)) for what, (reason, _, _) in WRONG.items()}
        bootstrap = (await world.machine("asked")).status.bootstrap
        assert bootstrap is not None and bootstrap.certificate_expires_at is None


async def test_who_is_neither_its_token_nor_the_same_agent_is_denied(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    async with machine_world(cluster, tmp_path) as world:
        await world.make("mine")
        await world.token("mine")
        async with closing(world.agent("other-agent")) as other:
            await other.create(REQUESTS, as_object("stolen-1", a_request(agent_user("mine"))))
        await world.kube.create(REQUESTS, as_object("stolen-2", a_request(agent_user("mine"))))
        for name in ("stolen-1", "stolen-2"):
            assert (await world.decided(name))["Denied"]["reason"] == DenialReason.REQUESTER


async def test_an_agent_that_floods_requests_gets_few_certificates_and_a_reason(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    """LOW: 400 requests in 1.7 s. Another agent is answered meanwhile."""
    count = 60
    async with machine_world(cluster, tmp_path) as world:
        for name in ("flood", "calm"):
            await world.make(name)
            async with asking(world, name) as host:
                pem = a_request(agent_user(name))
                await host.create(REQUESTS, as_object(f"{name}-first", pem))
                assert set(await world.decided(f"{name}-first")) == {"Approved"}
        pem = a_request(agent_user("flood"))
        async with closing(world.agent("flood")) as agent:
            for number in range(count):
                await agent.create(REQUESTS, as_object(f"flood-{number:03}", pem))
        async with closing(world.agent("calm")) as agent:
            await agent.create(REQUESTS, as_object("calm-1", a_request(agent_user("calm"))))
        assert set(await world.decided("calm-1")) == {"Approved"}
        decided = [await world.decided(f"flood-{number:03}") for number in range(count)]
        denied = [found["Denied"] for found in decided if "Denied" in found]
        assert len(denied) == count - MOST_REQUESTS
        assert {no["reason"] for no in denied} == {DenialReason.TOO_MANY}
        assert "find out what makes them" in denied[0]["message"]


async def test_requests_of_others_are_left_alone(cluster: ControlPlane, tmp_path: Path) -> None:
    async with machine_world(cluster, tmp_path) as world:
        await world.make("bystander")
        await world.kube.create(REQUESTS, as_object("a-person", a_request("ann", ["people"])))
        await world.kube.create(REQUESTS, as_object("an-agent", a_request(agent_user("bystander"))))
        await world.decided("an-agent")
        assert not (await world.kube.get(f"{REQUESTS}/a-person"))["status"]


async def test_a_renewal_needs_a_certificate_that_was_granted_to_this_machine(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    """A Machine made anew is another one: the certificate of the one before renews nothing."""
    async with machine_world(cluster, tmp_path) as world:
        await world.make("anew")
        await world.token("anew")
        async with closing(world.agent("anew")) as before:
            await before.create(REQUESTS, as_object("anew-1", a_request(agent_user("anew"))))
        assert (await world.decided("anew-1"))["Denied"]["reason"] == DenialReason.UNKNOWN


async def test_a_token_of_a_machine_that_is_gone_is_revoked_and_refused(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    async with machine_world(cluster, tmp_path) as world:
        await world.make("gone")
        token = await world.token("gone")
        await world.delete("gone")
        await world.make("gone")
        await world.no_token(token.token.id)
        await refused(world, token.text)


async def refused(world: MachineWorld, token: str) -> None:
    """Wait until the API server takes the token for nobody's. It remembers for 10 s who showed a
    token, so this one must not have been shown."""
    host = world.bearer(token)

    async def look() -> bool:
        try:
            await host.get(f"{REQUESTS}/nothing")
        except KubeError as error:
            return isinstance(error, Unauthorized)
        return False

    try:
        await until(look, "the token is taken")
    finally:
        await host.close()


async def test_a_token_of_another_machine_of_the_same_name_gives_nothing(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    """The Secret is bound by UID: whoever changes the name in it has changed nothing."""
    async with machine_world(cluster, tmp_path) as world:
        await world.make("bound")
        token = await world.token("bound")
        path = f"/api/v1/namespaces/kube-system/secrets/{secret_name(token.token.id)}"
        forged = {"metadata": {"annotations": {MACHINE_UID: "another"}}}
        await world.kube.patch(path, forged)
        async with closing(world.bearer(token.text)) as host:
            await host.create(REQUESTS, as_object("bound-1", a_request(agent_user("bound"))))
            assert (await world.decided("bound-1"))["Denied"]["reason"] == DenialReason.TOKEN


async def test_an_expired_token_is_refused(cluster: ControlPlane, tmp_path: Path) -> None:
    """One that the operator does not know, or it would be renewed."""
    async with machine_world(cluster, tmp_path) as world:
        machine, token_id = await world.make("late"), new_id()
        over = secret(token_id, machine, SystemClock().now() - timedelta(seconds=1))
        await world.kube.create("/api/v1/namespaces/kube-system/secrets", over)
        await refused(world, f"{token_id}.{b64decode(over['data']['token-secret']).decode()}")


async def test_reissue_lets_one_more_certificate_through(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    async with machine_world(cluster, tmp_path) as world:
        await world.make("again")
        async with asking(world, "again") as host:
            await host.create(REQUESTS, as_object("again-1", a_request(agent_user("again"))))
            await world.certificate("again-1")
        await world.annotate("again", reissue="2026-11-22T12:00:00Z")
        async with asking(world, "again") as host:
            await host.create(REQUESTS, as_object("again-2", a_request(agent_user("again"))))
            assert set(await world.decided("again-2")) == {"Approved"}
            await host.create(REQUESTS, as_object("again-3", a_request(agent_user("again"))))
            assert (await world.decided("again-3"))["Denied"]["reason"] == DenialReason.LIVE


def losing(number: int, *, applied: bool) -> type[Kube]:
    """A client whose write of this number fails, after it happened or before."""

    class Losing(Kube):
        writes = 0

        async def patch(self, path: str, *args: Any, **more: Any) -> Any:
            if "/events/" in path:
                return await super().patch(path, *args, **more)
            Losing.writes += 1
            mine = Losing.writes == number
            if mine and not applied:
                raise ServerUnreachable("lost before it happened")
            answer = await super().patch(path, *args, **more)
            if mine:
                raise ServerUnreachable("happened, and the answer was lost")
            return answer

    return Losing


@pytest.mark.parametrize("applied", [False, True])
async def test_dying_at_any_write_grants_one_certificate_and_no_second(
    cluster: ControlPlane, tmp_path: Path, applied: bool
) -> None:
    for number in range(1, 5):
        name = f"dies-{number}-{applied}".lower()
        kind = losing(number, applied=applied)
        async with machine_world(cluster, tmp_path, kind=kind) as world:
            await world.make(name)
            async with asking(world, name) as host:
                await host.create(REQUESTS, as_object(f"{name}-1", a_request(agent_user(name))))
                await host.create(REQUESTS, as_object(f"{name}-2", a_request(agent_user(name))))
                said = [set(await world.decided(f"{name}-{n}")) for n in (1, 2)]
            assert sorted(said, key=str) == [{"Approved"}, {"Denied"}]

            async def remembered(world: MachineWorld = world, name: str = name) -> bool:
                bootstrap = (await world.machine(name)).status.bootstrap
                return bootstrap is not None and not bootstrap.request_id

            await until(remembered, "the end of the certificate is not in the status")
