"""The last good version of a rule on a real API server, and an operator that is killed."""

import json
import time
from typing import Any

import pytest
from support.registry_plane import RegistryPlane
from support.webhook_world import a_spec, an_object

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]


def a_rule(spec: dict[str, Any]) -> dict[str, Any]:
    return {**an_object("kept", spec), "metadata": {"name": "kept"}}


def test_the_last_good_version_outlives_a_killed_operator(
    plane: RegistryPlane,
) -> None:
    """On a cluster without the webhook: the registry refuses by itself."""
    quiet = a_spec(when={"condition": {"type": "Never"}}, mode="DryRun")
    with plane.operator() as program:
        plane.apply(a_rule(quiet))
        before = plane.until_status("kept", phase="Active")
        _until_kept(plane, "kept")
        program.kill()
        program.wait()
    broken = a_spec(when={"fact": {"name": "no.suchFact"}}, mode="DryRun")
    assert plane.apply(a_rule(broken)).returncode == 0
    with plane.operator():
        status = plane.until_status("kept", phase="Rejected")
        assert status["compiledHash"] == before["compiledHash"]
        [compiled] = [c for c in status["conditions"] if c["type"] == "Compiled"]
        assert "'no.suchFact' is no built-in fact" in compiled["message"]
        assert "last good version stays loaded" in compiled["message"]
    plane.cp.kubectl("delete", "noderemedier", "kept")
    deadline = time.monotonic() + 30
    while _revisions(plane, "kept"):
        assert time.monotonic() < deadline, "its revisions go with the rule"
        time.sleep(0.2)


def _until_kept(plane: RegistryPlane, name: str) -> None:
    deadline = time.monotonic() + 30
    while not _revisions(plane, name):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _revisions(plane: RegistryPlane, name: str) -> list[str]:
    found = plane.cp.kubectl("get", "controllerrevisions", "-n", "kubenode-system", "-o", "json")
    items = json.loads(found.stdout)["items"]
    return [item["metadata"]["name"] for item in items if item["data"]["name"] == name]
