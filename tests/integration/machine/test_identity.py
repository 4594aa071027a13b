"""An agent's identity on a real API server: from a token to a certificate, and on to the next."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.control_plane import ControlPlane
from support.expired import expired_pair
from support.machine_host import Host, a_host, joined
from support.machine_requests import REQUESTS
from support.machine_world import machine_world, until
from support.pki import Authority

from agent.heartbeat import Heartbeat
from agent.host.systemd import SystemdHost
from agent.identity import keys, pem
from agent.identity.pem import BadPem
from agent.identity.store import IdentityStore
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.paths import custom
from machine.bootstrap.lifesigns import AgentLease, decode_lease
from machine.certificates.requests import read
from machine.names import agent_user

pytestmark = pytest.mark.integration


async def test_a_token_a_certificate_a_lease_and_the_token_is_revoked(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    async with machine_world(cluster, tmp_path) as world, a_host(world, "joins") as host:
        token_id = await joined(world, host)
        assert await host.user() == agent_user("joins")
        assert host.store.current.stat().st_mode & 0o777 == 0o600
        assert not host.store.read_key() and not host.store.read_next()
        beat = Heartbeat(host.kube, SystemdHost(), "joins", host.clock, every=0.2)
        async with asyncio.TaskGroup() as tasks:
            beating = tasks.create_task(beat.run())
            await world.condition("joins", "LeaseFresh")
            await world.no_token(token_id)
            beating.cancel()


async def test_the_certificate_is_renewed_in_time_and_no_watch_is_dropped(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    async with machine_world(cluster, tmp_path) as world, a_host(world, "turns") as host:
        await joined(world, host)
        first, before = host.validity, host.store.read_current()
        assert await host.keeper.renew_if_due() > 1
        assert host.store.read_current() == before, "renewed too early"
        jobs: Informer[Any] = Informer(
            host.kube, custom("remedyoperationjobs"), _decode, watch_seconds=300.0
        )
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(jobs.run())
            await jobs.synced.wait()
            host.clock.by = first.life
            await host.keeper.renew_if_due()
            renewed = host.store.read_current()
            assert renewed != before
            assert await host.keeper.renew_if_due() > 1
            assert host.store.read_current() == renewed, "of a clock that is ahead: again and again"
            host.clock.by = timedelta(0)
            assert pem.key_of(host.store.read_current()) != pem.key_of(before)
            assert host.validity.ends >= first.ends
            assert await host.user() == agent_user("turns")
            assert (jobs.stats.errors, jobs.stats.watches) == (0, 1)
            watching.cancel()


def _decode(raw: bytes) -> AgentLease:
    return decode_lease(raw)


async def test_f25_expired_while_off_is_shown_with_the_way_back_and_reissue_is_one(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    """The certificate of a key that the authority never signed stands for an expired one: the API
    server answers 401 to both."""
    async with machine_world(cluster, tmp_path) as world, a_host(world, "slept") as host:
        await joined(world, host)
        host.token_file.unlink()
        _expire(host)
        over = {"bootstrap": {"certificateExpiresAt": "2026-01-01T00:00:00Z"}}
        path = custom("machines", "slept", "status")
        await world.kube.patch(path, {"status": over})
        shown = await world.condition("slept", "CertificateExpired")
        assert "kubenode machine reissue slept" in shown
        assert await host.keeper.renew_if_due() > 0
        assert "kubenode machine reissue slept" in host.keeper.trouble
        await world.annotate("slept", reissue="1")
        host.token_file.write_text((await world.token("slept")).text)
        await host.keeper.renew_if_due()
        assert host.keeper.trouble == ""
        assert await host.user() == agent_user("slept")


def _expire(host: Host) -> None:
    """Put in the place of the certificate one that has ended, and that nobody would take."""
    pair = expired_pair(host.name, SystemClock().now())
    host.store.keep_next(pair)
    host.store.adopt()


async def test_two_keys_of_one_host_that_died_on_the_way_end_as_one_certificate(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    """Killed after it asked: it finds its request again by its key."""
    async with machine_world(cluster, tmp_path) as world, a_host(world, "dies") as host:
        await world.make("dies")
        host.token_file.write_text((await world.token("dies")).text)
        async with asyncio.TaskGroup() as tasks:
            looking = tasks.create_task(host.keeper.renew_if_due())

            async def asked() -> bool:
                listed = await world.kube.get(REQUESTS)
                return any("-dies-" in r["metadata"]["name"] for r in listed["items"])

            await until(asked, "no request")
            looking.cancel()
        assert host.store.read_key() or host.store.read_current()
        async with a_host(world, "dies") as again:
            await again.keeper.renew_if_due()
            assert await again.user() == agent_user("dies")
        listed = await world.kube.get(REQUESTS)
        ours = [r for r in listed["items"] if "-dies-" in r["metadata"]["name"]]
        assert len(ours) == 1


async def test_invariant_14_certificates_outlive_pause_observation_and_another_authority(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    """A Machine that is only observed, in a cluster where nothing may be disrupted, and an agent
    whose server's authority was replaced on disk."""
    async with machine_world(cluster, tmp_path) as world, a_host(world, "paused") as host:
        await joined(world, host)
        await world.freeze()
        await world.kube.patch(custom("machines", "paused"), {"spec": {"mode": "Observe"}})
        first = host.store.read_current()
        good = host.ca_file.read_bytes()
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        host.ca_file.write_bytes(Authority(elsewhere).cert_file.read_bytes())
        await host.keeper.renew_if_due()
        assert host.keeper.trouble == ""
        host.clock.by = host.validity.due_at(1.0) - SystemClock().now() + timedelta(seconds=1)
        assert await host.keeper.renew_if_due() > 0
        assert host.keeper.trouble, "an authority that did not sign the server is not believed"
        host.ca_file.write_bytes(good)
        await host.keeper.renew_if_due()
        assert host.store.read_current() != first


class Dying(IdentityStore):
    """The agent is killed at its write of this number, before or after it is on disk."""

    def __init__(self, folder: Path, number: int, *, applied: bool) -> None:
        super().__init__(folder)
        self.writes, self._number, self._applied = 0, number, applied

    def _dies(self, write: Callable[[], None]) -> None:
        self.writes += 1
        if self.writes != self._number:
            write()
            return
        if self._applied:
            write()
        raise Killed

    def keep_key(self, key: bytes) -> None:
        self._dies(lambda: IdentityStore.keep_key(self, key))

    def keep_next(self, pair: bytes) -> None:
        self._dies(lambda: IdentityStore.keep_next(self, pair))

    def adopt(self) -> None:
        self._dies(lambda: IdentityStore.adopt(self))

    def drop(self) -> None:
        self._dies(lambda: IdentityStore.drop(self))


class Killed(BaseException):
    """Nothing of the agent runs after it."""


async def test_killed_at_any_write_a_host_still_joins_with_one_request(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    async with machine_world(cluster, tmp_path) as world:
        for number, applied in ((1, True), (2, False), (2, True), (3, False), (4, False)):
            name = f"killed-{number}-{applied}".lower()
            await world.make(name)
            token = (await world.token(name)).text
            async with a_host(world, name) as host:
                host.token_file.write_text(token)
                host.use(Dying(host.folder, number, applied=applied))
                with pytest.raises(Killed):
                    await host.keeper.renew_if_due()
            async with a_host(world, name) as again:
                await again.keeper.renew_if_due()
                assert again.keeper.trouble == ""
                assert await again.user() == agent_user(name)
                assert not again.store.read_next()
            listed = await world.kube.get(REQUESTS)
            ours = [r for r in listed["items"] if f"-{name}-" in r["metadata"]["name"]]
            assert len(ours) == 1


async def test_a_child_makes_what_is_asked_for_and_keeps_a_key_that_is_one() -> None:
    pair = expired_pair("h1", SystemClock().now())
    key, request, fingerprint = await keys.request("h1")
    assert read(request).common_names == (agent_user("h1"),)
    assert fingerprint == pem.fingerprint(key)
    assert (await keys.request("h1", key))[0] == key
    assert (await keys.request("h1", b"no key"))[0] not in (b"no key", key)
    await keys.check("h1", pair)
    with pytest.raises(BadPem, match="not for kubenode:agent:h2"):
        await keys.check("h2", pair)
