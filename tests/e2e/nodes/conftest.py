"""Three real Nodes for all tests of this folder, and a place for what they measure."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.components import CONTROL_PLANE, HOSTS, require
from support.node_cluster import NodeCluster, node_cluster

Keep = Callable[..., None]


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeCluster]:
    require(HOSTS)
    require(CONTROL_PLANE)
    with node_cluster(tmp_path_factory.mktemp("nodes")) as made:
        yield made


@pytest.fixture(scope="package")
def figures(request: pytest.FixtureRequest) -> Iterator[Keep]:
    """`figures("hung host", noticed=…)`: a line of JSON each, at the end, and with
    KUBENODE_ARTIFACTS a file.
    """
    kept: dict[str, Any] = {}

    def keep(name: str, **values: float) -> None:
        kept[name] = {key: round(value, 2) for key, value in values.items()}

    yield keep
    plugins = request.config.pluginmanager
    with plugins.getplugin("capturemanager").global_and_fixture_disabled():
        for name, values in kept.items():
            plugins.getplugin("terminalreporter").write_line(f"\n{json.dumps({name: values})}")
    if (folder := os.environ.get("KUBENODE_ARTIFACTS")) and kept:
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / "node-figures.json").write_text(json.dumps(kept, indent=1) + "\n")
