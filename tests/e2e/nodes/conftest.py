"""Three real Nodes for all tests of this folder."""

from collections.abc import Iterator

import pytest
from support.components import CONTROL_PLANE, HOSTS, require
from support.node_cluster import NodeCluster, node_cluster


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeCluster]:
    require(HOSTS)
    require(CONTROL_PLANE)
    with node_cluster(tmp_path_factory.mktemp("nodes")) as made:
        yield made
