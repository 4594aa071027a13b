"""Invariant 14: another authority signs from now on; agents renew, and nobody falls out."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from support.components import CONTROL_PLANE, require
from support.control_plane import ControlPlane
from support.machine_host import Host, a_host, joined
from support.machine_world import PATIENCE, install, machine_world
from support.pki import Authority

from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.paths import custom
from machine.bootstrap.lifesigns import AgentLease, decode_lease
from machine.names import agent_user

pytestmark = pytest.mark.integration


@pytest.fixture
def cluster() -> Iterator[ControlPlane]:
    """One of its own: its authority changes."""
    require(CONTROL_PLANE)
    with ControlPlane(scheduler=False) as cp:
        install(cp)
        yield cp


def signs_from_now_on(cluster: ControlPlane, new: Authority) -> None:
    """As an administrator does it: both are believed, then the new one signs."""
    both = cluster.ca_file.read_bytes() + new.cert_file.read_bytes()
    cluster.ca_file.write_bytes(both)
    signer = cluster.part("kube-controller-manager")
    signer.stop()
    signer.argv += [
        f"--cluster-signing-cert-file={new.cert_file}",
        f"--cluster-signing-key-file={new.key_file}",
    ]
    cluster.restart("kube-controller-manager")


def by(authority: Path, host: Host) -> bool:
    """Whether this authority, the first of the file, signed what the host shows."""
    shown = x509.load_pem_x509_certificates(host.store.read_current())[0]
    try:
        shown.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.read_bytes()))
    except (InvalidSignature, ValueError):
        return False
    return True


async def renews(host: Host) -> None:
    before = host.store.read_current()
    async with asyncio.timeout(PATIENCE):
        while host.store.read_current() == before:
            host.clock.by = host.validity.due_at(1.0) - SystemClock().now() + timedelta(seconds=1)
            await host.keeper.renew_if_due()
            await asyncio.sleep(0.1)
    host.clock.by = timedelta(0)


def _decode(raw: bytes) -> AgentLease:
    return decode_lease(raw)


async def test_invariant_14_another_authority_signs_and_nobody_falls_out(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    new = Authority(tmp_path)
    async with (
        machine_world(cluster, tmp_path) as world,
        a_host(world, "turns-first") as first,
        a_host(world, "turns-later") as later,
        a_host(world, "comes-after") as after,
    ):
        await joined(world, first)
        await joined(world, later)
        jobs: Informer[Any] = Informer(
            first.kube, custom("remedyoperationjobs"), _decode, watch_seconds=300.0
        )
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(jobs.run())
            await jobs.synced.wait()
            signs_from_now_on(cluster, new)
            await renews(first)
            assert by(new.cert_file, first) and by(cluster.ca_file, later)
            for host in (first, later):
                assert await host.user() == agent_user(host.name)
            await joined(world, after)
            await renews(later)
            for host in (first, later, after):
                assert by(new.cert_file, host)
                assert await host.user() == agent_user(host.name)
                assert host.keeper.trouble == ""
            assert (jobs.stats.errors, jobs.stats.watches) == (0, 1), "a watch was dropped"
            watching.cancel()
