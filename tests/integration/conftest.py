"""Session fixtures: the real control plane and the embedded API server, each started once.

A missing control plane skips its tests by name; in CI it fails.
"""

from collections.abc import Iterator

import pytest
from support.components import CONTROL_PLANE, require
from support.control_plane import ControlPlane
from support.embedded import EmbeddedPlane


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """kube-apiserver with RBAC, controller-manager and scheduler.

    Tests isolate themselves by namespace and name.
    """
    require(CONTROL_PLANE)
    with ControlPlane() as cp:
        yield cp


@pytest.fixture(scope="session")
def embedded() -> Iterator[EmbeddedPlane]:
    """The embedded API server, which needs nothing but this repository."""
    with EmbeddedPlane() as plane:
        yield plane
