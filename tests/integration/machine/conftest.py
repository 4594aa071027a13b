"""The control plane with Machines' kinds, rights and policies installed."""

from collections.abc import Iterator

import pytest
from support.control_plane import ControlPlane
from support.machine_requests import REQUESTS
from support.machine_world import install


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    install(control_plane)
    yield control_plane
    control_plane.kubectl("delete", "--raw", REQUESTS)
