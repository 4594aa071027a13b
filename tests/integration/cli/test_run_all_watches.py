"""What `kubenode run all` asks the API server to watch: each kind once, whoever reads it."""

import time
import urllib.request
from collections import Counter
from collections.abc import Iterator

import pytest
from support.command import kubenode, started
from support.daemons import free_port
from support.embedded import EmbeddedPlane
from support.waiting import until

from simulation.apiserver.selectors import Selection

PARTS = {
    "pods": {"Pending"},  # displaced ones wait; a cluster has a hundred pods for each
    # Of Pods the kubelet's warnings and failed attachments, the smaller part (decision 0039).
    "events": {"Node", "Pod by kubelet", "Pod by attachdetach-controller"},
    "leases.coordination.k8s.io": {"kube-node-lease", "kubenode-agents"},  # hosts' signs of life
    # What agents may read of the Secrets of their components.
    "roles.rbac.authorization.k8s.io": {"kubenode-components"},
    "rolebindings.rbac.authorization.k8s.io": {"kubenode-components"},
}
"""Kinds of which parts are watched, each once."""
LEAST = 15
"""Fewer kinds than the three programs watch together."""


@pytest.fixture(scope="module")
def watches() -> Iterator[Counter[tuple[str, str]]]:
    """Open watches by resource and part, once all programs of the process are ready."""
    health, guard, dashboard = free_port(), free_port(), free_port()
    with EmbeddedPlane() as plane:
        assert kubenode("install", "--kubeconfig", plane.kubeconfig).returncode == 0
        with started(
            "run", "all", "--kubeconfig", plane.kubeconfig, "--health-port", str(health),
            "--guard-port", str(guard), "--dashboard-port", str(dashboard),
        ) as process:  # fmt: skip
            until(lambda: _answers(health) or process.poll() is not None, "it is ready", 60)
            assert process.poll() is None, process.communicate()[1]
            # A list comes before its watch, so what the last list began is soon watched too.
            until(lambda: len(open_watches(plane)) >= LEAST, "the watches are open", 60)
            time.sleep(1)
            yield open_watches(plane)


def test_every_kind_is_watched_once(watches: Counter[tuple[str, str]]) -> None:
    assert {what: count for what, count in watches.items() if count != 1} == {}


def test_what_all_programs_read_is_watched(watches: Counter[tuple[str, str]]) -> None:
    """Else the test above says nothing."""
    kinds = {resource for resource, _ in watches}
    assert {"nodes", "remedyoperationjobs.kubenode.io", "permits.kubenode.io"} <= kinds
    assert {"noderemediers.kubenode.io", "machinecomponentsets.kubenode.io"} <= kinds


def test_kinds_watched_in_parts_are_those_with_a_reason(
    watches: Counter[tuple[str, str]],
) -> None:
    parts: dict[str, set[str]] = {}
    for resource, part in watches:
        parts.setdefault(resource, set()).add(part)
    assert {kind: found for kind, found in parts.items() if found != {""}} == PARTS


def open_watches(plane: EmbeddedPlane) -> Counter[tuple[str, str]]:
    """By resource and namespace, or what a field selector asks for."""
    return Counter(
        (resource, _part(selection))
        for resource, collection in list(plane.api.store._collections.items())
        for selection in [each.selection for each in collection.listeners()]
    )


def _part(selection: Selection) -> str:
    """Return the namespace of a watch, or what its field selector requires; "" for everything."""
    reporter = [
        term.value
        for term in selection._fields
        if not term.negative and term.path[0] in ("involvedObject", "source")
    ]
    pin = selection.pin[1] if selection.pin else ""
    return selection.namespace or " by ".join(reporter) or pin


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2):
            return True
    except OSError:
        return False
