"""Grants of rule authors that are switched off and on again."""

import pytest
from support.control_plane import ControlPlane
from support.rule_authors import EXAMPLE, AuthorPlane

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]


def test_grants_hold_again_after_they_were_switched_off(control_plane: ControlPlane) -> None:
    """With a ConfigMap as parameters the API server refused every rule the second time."""
    for _ in range(2):
        with AuthorPlane(control_plane, EXAMPLE):
            pass  # entered once a grant is enforced
