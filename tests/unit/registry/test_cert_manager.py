"""A Secret that cert-manager fills is served from, and never written."""

import base64
from datetime import timedelta

import pytest
from support.clock import FakeClock
from support.tls_world import TlsWorld, a_keeper

from kubenode.runtime.tls.certificates import Pair, new_authority, new_serving
from kubenode.runtime.tls.keeper import CERT_MANAGER, POLL_SECONDS, RETRY_SECONDS
from kubenode.runtime.tls.rotation import CertificateLifetimes

DAY = timedelta(days=1)


@pytest.fixture
def world() -> TlsWorld:
    return TlsWorld(FakeClock())


def put(world: TlsWorld, pair: Pair | None) -> None:
    """As cert-manager does: no key of the authority, and before it has signed nothing at all."""
    parts = {} if pair is None else {"tls.crt": pair.certificate, "tls.key": pair.key}
    data = {name: base64.b64encode(raw).decode() for name, raw in parts.items()}
    notes = {CERT_MANAGER: "kubenode-remedy-webhook"}
    world.secret = {"data": data, "metadata": {"resourceVersion": "7", "annotations": notes}}


def signed(world: TlsWorld) -> Pair:
    now = world.clock.now()
    return new_serving(new_authority(DAY, now), ("hook",), DAY, now)


async def test_it_is_served_and_renewed_and_nothing_is_written(world: TlsWorld) -> None:
    replica = a_keeper(world, CertificateLifetimes())
    for pair in (signed(world), signed(world)):
        put(world, pair)
        assert await replica.keeper.round() == POLL_SECONDS
        assert replica.context.pair == pair
    assert world.writes == 0


async def test_before_it_has_signed_nothing_is_served_and_it_is_asked_again_soon(
    world: TlsWorld,
) -> None:
    replica = a_keeper(world, CertificateLifetimes())
    put(world, None)
    assert await replica.keeper.round() == RETRY_SECONDS
    assert (replica.context.pair, world.writes) == (None, 0)
