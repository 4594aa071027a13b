"""Captain's cluster is the shared control plane; the member has one of its own."""

from collections.abc import Iterator

import pytest
from support.components import CONTROL_PLANE, require
from support.control_plane import ControlPlane
from support.member_world import MemberWorld


@pytest.fixture(scope="session")
def member_plane() -> Iterator[ControlPlane]:
    require(CONTROL_PLANE)
    with ControlPlane(controllers=False, scheduler=False) as member:
        yield member


@pytest.fixture(scope="module")
def clusters(control_plane: ControlPlane, member_plane: ControlPlane) -> MemberWorld:
    """Captain's rights end with each file, as those of all programs do."""
    return MemberWorld(control_plane, member_plane)


@pytest.fixture
def world(clusters: MemberWorld) -> Iterator[MemberWorld]:
    yield clusters
    clusters.clean()
