"""Session fixtures: the real control plane and the embedded API server, each started once.

A missing control plane, or helm, skips its tests by name; in CI it fails.
"""

from collections.abc import Iterator

import pytest
from support.components import CONTROL_PLANE, HELM, require
from support.control_plane import ControlPlane
from support.embedded import EmbeddedPlane
from support.helm import Helm

CLUSTER_KINDS = (
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
    "mutatingwebhookconfigurations",
    "clusterroles",
    "clusterrolebindings",
)
"""Kinds of the chart that have an effect on every request of every namespace."""
STARTED: list[ControlPlane] = []
"""The control plane of this worker; empty until a test needs it, or where it cannot run."""


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """kube-apiserver with RBAC, controller-manager and scheduler.

    Tests isolate themselves by namespace and name. `end_chart_objects` deletes the roles and
    policies that a file applies for the whole cluster.
    """
    require(CONTROL_PLANE)
    with ControlPlane() as cp:
        STARTED.append(cp)
        yield cp


@pytest.fixture(scope="module", autouse=True)
def end_chart_objects(request: pytest.FixtureRequest) -> Iterator[None]:
    """Delete the chart's policies, webhooks and cluster roles at the end of a file.

    The next file of this worker would otherwise be refused, or allowed, by what it did not apply.
    """
    yield
    mine = (item for item in request.session.items if item.path == request.path)
    used = any("control_plane" in getattr(item, "fixturenames", ()) for item in mine)
    if not used or not STARTED:
        return
    [cp] = STARTED
    names = cp.kubectl("get", ",".join(CLUSTER_KINDS), "-o", "name").stdout.split()
    if ours := [name for name in names if "/kubenode-" in name]:
        cp.kubectl("delete", "--ignore-not-found", *ours)


@pytest.fixture(scope="session")
def embedded() -> Iterator[EmbeddedPlane]:
    """The embedded API server, which needs nothing but this repository."""
    with EmbeddedPlane() as plane:
        yield plane


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """helm, with a folder of this session for what it caches."""
    require(HELM)
    return Helm(tmp_path_factory.mktemp("helm"))
