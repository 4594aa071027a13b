"""A control plane with our kinds, rights and webhook, as the chart ships them."""

from collections.abc import Iterator

import pytest
from support.control_plane import ControlPlane
from support.registry_plane import RegistryPlane


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> Iterator[RegistryPlane]:
    """Files share a control plane with others that apply and delete the same roles."""
    with RegistryPlane(control_plane) as found:
        yield found
