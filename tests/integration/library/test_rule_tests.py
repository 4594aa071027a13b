"""Every rule of the library keeps its own tests, under both engines."""

import pytest
from support.command import kubenode

from kubenode.cli.library import FOLDER, packs

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("pack", packs())
def test_the_tests_of_a_pack_hold(pack: str) -> None:
    result = kubenode("rules", "test", FOLDER / pack)
    assert result.returncode == 0, result.stdout + result.stderr
