"""Session fixtures: disposable hosts, and a real control plane that they can reach.

Both are made once per session; tests isolate themselves by names of hosts, nodes and objects. A
missing component skips its tests by name; in CI it fails.
"""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.agent_jobs import install
from support.components import CONTROL_PLANE, HOSTS, require
from support.control_plane import ControlPlane
from support.hosts import Hosts

LONGEST = (
    "test_machine_rollout.py",
    "test_tutorials.py",
    "test_first_heal.py",
    "test_node_join.py",
    "test_python_releases.py",
    "test_machine_set_hosts.py",
    "test_newcomers_path.py",
    "test_machine_import.py",
    "test_demo_rollout.py",
)
"""Files that take more than a minute, the longest first."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the longest files first: one that starts last leaves the other workers idle."""
    rank = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.name, len(rank)))


@pytest.fixture(scope="session")
def hosts() -> Iterator[Hosts]:
    """systemd-nspawn hosts on a bridge of this session's own."""
    require(HOSTS)
    with Hosts() as made:
        yield made


@pytest.fixture(scope="session")
def control_plane(hosts: Hosts) -> Iterator[ControlPlane]:
    """On the bridge's address, with the CRDs, the agents' rights and an audit log."""
    require(CONTROL_PLANE)
    with ControlPlane(address=hosts.gateway, audit=True) as cp:
        install(cp)
        yield cp


@pytest.fixture(scope="module")
def figures(request: pytest.FixtureRequest) -> Iterator[Callable[..., None]]:
    """Keep figures of a module: `figures("hung host", noticed=1.5)`. At the end each name is a line
    of JSON on the terminal. With KUBENODE_ARTIFACTS they are in the file MODULE-figures.json there.
    """
    measured: dict[str, Any] = {}

    def keep(name: str, **values: float) -> None:
        measured[name] = {key: round(value, 2) for key, value in values.items()}

    yield keep
    plugins = request.config.pluginmanager
    with plugins.getplugin("capturemanager").global_and_fixture_disabled():
        for name, values in measured.items():
            plugins.getplugin("terminalreporter").write_line(f"\n{json.dumps({name: values})}")
    if (folder := os.environ.get("KUBENODE_ARTIFACTS")) and measured:
        Path(folder).mkdir(parents=True, exist_ok=True)
        file = Path(folder) / f"{Path(request.node.name).stem}-figures.json"
        file.write_text(json.dumps(measured, indent=1) + "\n")
