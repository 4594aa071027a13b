"""`kubenode verify` against an API server: what it reads, prints and returns."""

import copy
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from support.api_objects import GOOD
from support.command import kubenode
from support.defender_objects import job_object, node_object
from support.embedded import EmbeddedPlane

from kubenode.cli.cluster import crds
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube.paths import custom

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
NOW = SystemClock().now()
SETS = "machinecomponentsets"


def _good(kind: str) -> dict[str, Any]:
    return copy.deepcopy(next(raw for raw in GOOD.values() if raw["kind"] == kind))


SET = _good("MachineComponentSet")
NAME = SET["metadata"]["name"]


@pytest.fixture(scope="module")
def plane() -> Iterator[EmbeddedPlane]:
    machine = _good("Machine")
    machine["metadata"]["labels"] = SET["spec"]["selector"]["matchLabels"]
    machine["status"] = {"nodeRef": {"name": "n1"}}
    with EmbeddedPlane(crds=crds()) as found:
        found.api.load([node_object("n1", {}), machine, SET])
        yield found


def _verify(plane: EmbeddedPlane, *args: str) -> tuple[int, dict[str, Any]]:
    done = kubenode("verify", *args, "-o", "json", "--kubeconfig", plane.kubeconfig)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def _complete(plane: EmbeddedPlane) -> None:
    generation = plane.get(custom(SETS, NAME))["metadata"]["generation"]
    now = NOW.isoformat()
    done = {"type": "Progressing", "status": "False", "reason": "Completed"}
    status = {
        "observedGeneration": generation,
        "conditions": [done | {"lastTransitionTime": now}],
    }
    plane.patch(custom(SETS, NAME, "status"), {"status": status})


def test_set_is_in_progress_then_verified_then_failed_by_a_new_fault(plane: EmbeddedPlane) -> None:
    code, report = _verify(plane, f"kncs/{NAME}")
    assert (code, report["state"]) == (1, "InProgress")
    assert report["reason"] == "GenerationNotObserved"
    _complete(plane)
    code, report = _verify(plane, f"kncs/{NAME}")
    assert (code, report["state"], report["findings"]) == (0, "Verified", [])
    plane.api.load([job_object("n1", NOW)])
    code, report = _verify(plane, f"kncs/{NAME}", "--since", "1h")
    assert (code, report["state"]) == (1, "Failed")
    assert report["newFaults"] == {"dead": ["job-n1"]}
    code, report = _verify(plane, f"kncs/{NAME}", "--since", "1h", "--max-new-faults", "1")
    assert (code, report["state"]) == (0, "Verified")
    soon = (NOW + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%MZ")
    assert _verify(plane, f"kncs/{NAME}", "--since", soon)[0] == 0


def test_missing_object_is_named(plane: EmbeddedPlane) -> None:
    done = kubenode("verify", "kncs/none", "--kubeconfig", plane.kubeconfig)
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no MachineComponentSet none" in done.stderr
