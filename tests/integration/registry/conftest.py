"""A control plane with our kinds, rights and webhook, as the chart ships them."""

from collections.abc import Iterator

import pytest
from support.control_plane import ControlPlane
from support.registry_plane import RegistryPlane


@pytest.fixture(scope="session")
def plane(control_plane: ControlPlane) -> Iterator[RegistryPlane]:
    with RegistryPlane(control_plane) as found:
        yield found
