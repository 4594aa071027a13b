"""The clusters of these tests: a real control plane with our kinds, or the embedded API server."""

from collections.abc import AsyncIterator, Iterator

import pytest
from support.control_plane import ControlPlane
from support.embedded import EmbeddedPlane
from support.remedy_cluster import Cluster, connected, install_crds

from kubenode.api.v1alpha1 import GROUP, KINDS
from kubenode.cli.cluster import crds
from simulation.demo.server import hook


@pytest.fixture(scope="module")
def with_crds(control_plane: ControlPlane) -> ControlPlane:
    install_crds(control_plane)
    return control_plane


@pytest.fixture
async def cluster(with_crds: ControlPlane) -> AsyncIterator[Cluster]:
    """A test module that runs elsewhere has a fixture of its own under this name.

    The control plane is one for all tests: what others left on it is removed first.
    """
    async with connected(with_crds) as found:
        await found.clean()
        yield found


@pytest.fixture(scope="module")
def plane() -> Iterator[EmbeddedPlane]:
    """The embedded API server, which checks our kinds as the demo's does."""
    hooks = {f"{kind.resource.plural}.{GROUP}": hook(kind) for kind in KINDS}
    with EmbeddedPlane(crds=crds(), admission=hooks) as found:
        yield found
