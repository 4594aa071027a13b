"""A real API server of these tests' own: it is killed, compacted and cut off here."""

from collections.abc import AsyncIterator, Iterator

import pytest
from support.components import CONTROL_PLANE, require
from support.control_plane import ControlPlane
from support.remedy_cluster import Cluster, connected, install_crds


@pytest.fixture(scope="package")
def plane() -> Iterator[ControlPlane]:
    """Without controllers, which would change what is watched; every request is in its log."""
    require(CONTROL_PLANE)
    with ControlPlane(controllers=False, scheduler=False, audit=True) as found:
        install_crds(found)
        yield found


@pytest.fixture
async def cluster(plane: ControlPlane) -> AsyncIterator[Cluster]:
    async with connected(plane) as found:
        yield found
