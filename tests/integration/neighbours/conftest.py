"""helm, which renders the chart; in CI it is built."""

import pytest
from support.components import HELM, require
from support.helm import Helm


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    require(HELM)
    return Helm(tmp_path_factory.mktemp("helm"))
