"""Kube Defender reads webhook configurations only if it publishes the authority of its webhook."""

from collections.abc import Callable
from typing import Any

import pytest
from support.clock import FakeClock
from support.tls_world import TlsWorld

from kubenode.cli.defender_frontends import _keeper
from kubenode.cli.defender_settings import DefenderFlags
from kubenode.runtime.kube.client import as_dict
from kubenode.runtime.kube.errors import Forbidden
from kubenode.runtime.settings import load
from kubenode.runtime.tls.context import LiveContext

FILES = {"guard_cert_file": "/etc/tls.crt", "guard_key_file": "/etc/tls.key"}


class WithoutPublishing(TlsWorld):
    """An API server with the rights of rbac.yaml, without those of publishing.yaml."""

    async def get(
        self, path: str, decode: Callable[[bytes], Any] = as_dict, query: Any = None
    ) -> Any:
        if "/validatingwebhookconfigurations/" in path:
            raise Forbidden(403, "Forbidden", path)
        return await super().get(path, decode, query)


@pytest.mark.parametrize(
    "flags", [{}, {"guard_port": 0, **FILES}], ids=["no guard", "guard by files"]
)
async def test_the_api_gets_a_certificate_without_a_right_on_configurations(
    flags: dict[str, Any],
) -> None:
    world, context = WithoutPublishing(FakeClock()), LiveContext()
    settings = load(DefenderFlags, {"tls": True, **flags})
    await _keeper(world, world.clock, settings, context).round()
    assert context.pair is not None


async def test_a_guard_of_an_own_authority_needs_the_right_on_its_configuration() -> None:
    world, context = WithoutPublishing(FakeClock()), LiveContext()
    settings = load(DefenderFlags, {"tls": True, "guard_port": 0})
    with pytest.raises(Forbidden):
        await _keeper(world, world.clock, settings, context).round()
