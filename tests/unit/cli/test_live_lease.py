"""How old a node's Lease is, for an explanation: as the Lease says, or unknown."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from support.clock import T0, FakeClock

from kubenode.cli.live import NodeLeaseAge
from kubenode.runtime.kube.errors import Forbidden, KubeError, NotFound


class Kube:
    """One Lease, or an error in its place."""

    def __init__(self, error: KubeError | None = None) -> None:
        self._error = error

    async def get(self, path: str, decode: Callable[[bytes], Any]) -> Any:
        assert path.endswith("/namespaces/kube-node-lease/leases/a")
        if self._error is not None:
            raise self._error
        return decode(b'{"metadata": {"name": "a"}, "spec": {"renewTime": "%s"}}' % AT)


AT = (T0 - timedelta(seconds=42)).isoformat().encode()


async def test_the_age_is_that_of_the_lease_and_only_of_this_node() -> None:
    lease = NodeLeaseAge("a", FakeClock())
    assert lease.age("a") is None
    await lease.read(Kube())  # type: ignore[arg-type]
    assert lease.age("a") == 42.0
    assert lease.age("b") is None


@pytest.mark.parametrize(
    "error", [NotFound(404, "NotFound", "a"), Forbidden(403, "Forbidden", "a")]
)
async def test_what_may_not_be_read_is_unknown(error: KubeError) -> None:
    lease = NodeLeaseAge("a", FakeClock())
    await lease.read(Kube(error))  # type: ignore[arg-type]
    assert lease.age("a") is None
