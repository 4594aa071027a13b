"""Session fixtures: disposable hosts, and a real control plane that they can reach.

Both are made once per session; tests isolate themselves by names of hosts, nodes and objects. A
missing component skips its tests by name; in CI it fails.
"""

from collections.abc import Iterator

import pytest
from support.agent_jobs import install
from support.components import CONTROL_PLANE, HOSTS, require
from support.control_plane import ControlPlane
from support.hosts import Hosts

LONGEST = (
    "test_machine_rollout.py",
    "test_tutorials.py",
    "test_first_heal.py",
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
