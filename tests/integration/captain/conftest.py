"""Captain's cluster is the shared control plane; the member has one of its own."""

from collections.abc import Iterator

import pytest
from support.components import CONTROL_PLANE, require
from support.control_plane import ControlPlane
from support.member_world import MemberWorld


@pytest.fixture(scope="session")
def clusters(control_plane: ControlPlane) -> Iterator[MemberWorld]:
    require(CONTROL_PLANE)
    with ControlPlane(controllers=False, scheduler=False) as member:
        yield MemberWorld(control_plane, member)


@pytest.fixture
def world(clusters: MemberWorld) -> Iterator[MemberWorld]:
    yield clusters
    clusters.clean()
