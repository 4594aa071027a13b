"""The API servers of these tests: the embedded one with our kinds, or the real one."""

from collections.abc import AsyncIterator, Iterator

import pytest
from support.control_plane import ControlPlane
from support.doctoring import forget
from support.embedded import EmbeddedPlane
from support.remedy_cluster import install_crds

from kubenode.api.v1alpha1 import GROUP, KINDS
from kubenode.cli.cluster import crds
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.official import connect
from simulation.demo.server import hook


@pytest.fixture(scope="module")
def plane() -> Iterator[EmbeddedPlane]:
    hooks = {f"{kind.resource.plural}.{GROUP}": hook(kind) for kind in KINDS}
    with EmbeddedPlane(crds=crds(), admission=hooks) as found:
        yield found


@pytest.fixture
async def kube(plane: EmbeddedPlane) -> AsyncIterator[Kube]:
    async for found in _connected(plane):
        yield found


@pytest.fixture(scope="module")
def real_plane(control_plane: ControlPlane) -> ControlPlane:
    install_crds(control_plane)
    return control_plane


@pytest.fixture
async def real_kube(real_plane: ControlPlane) -> AsyncIterator[Kube]:
    async for found in _connected(real_plane):
        yield found


async def _connected(plane: ControlPlane | EmbeddedPlane) -> AsyncIterator[Kube]:
    kube = Kube(connect(str(plane.kubeconfig)), rate=2000, burst=4000)
    try:
        await forget(kube)
        yield kube
        await forget(kube)
    finally:
        await kube.close()
