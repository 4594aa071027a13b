"""Releases over three real API servers, by `kubenode run captain` with the rights of the chart."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.chart_rights import ACCOUNT_GROUPS, account
from support.components import CONTROL_PLANE, require
from support.control_plane import ControlPlane
from support.daemons import free_port
from support.helm import CHART
from support.programs import Program
from support.release_plane import STAGES, ReleasePlane
from support.release_world import make_component, make_rule, make_set, make_stage
from support.waiting import until

from kubenode.runtime.kube import paths

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]
RELEASES = "releases"
OBJECTS = (("MachineComponent", "containerd-2.1.4"), ("MachineComponentSet", "containerd"))


@pytest.fixture(scope="module")
def plane(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ReleasePlane]:
    require(CONTROL_PLANE)
    with (
        ControlPlane(controllers=False, scheduler=False) as second,
        ControlPlane(controllers=False, scheduler=False) as third,
    ):
        plane = ReleasePlane((control_plane, second, third), tmp_path_factory.mktemp("captain"))
        control_plane.kubectl("apply", "-f", CHART / "people.yaml")
        for user, role in (("ann", "approver"), ("max", "manager")):
            words = ("create", "clusterrolebinding", f"releases-{user}")
            control_plane.kubectl(
                *words, f"--clusterrole=kubenode-release-{role}", f"--user={user}"
            )
        plane.put("test", build_pipeline())
        yield plane
    kinds = ("releases", "releasepipelines", "memberclusters", "noderemediers")
    control_plane.kubectl("delete", "remedyoperationjobs", "--all")
    plane.take_finalizers()  # Captain does not run any more
    for kind in (*kinds, "machinecomponentsets", "machinecomponents"):
        control_plane.kubectl("delete", kind, "--all")
    for user in ("ann", "max"):
        control_plane.kubectl("delete", "clusterrolebinding", f"releases-{user}")


def build_pipeline() -> dict[str, Any]:
    stages = [make_stage(name) for name in STAGES]
    stages[-1]["approval"] = "Before"
    return {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "ReleasePipeline",
        "metadata": {"name": "online"},
        "spec": {"stages": stages},
    }


def write_payload(folder: Path, *objects: dict[str, Any]) -> str:
    path = folder / "payload.yaml"
    path.write_text("\n---\n".join(json.dumps(each) for each in objects))
    return str(path)


def in_stage(stage: str, *phases: str) -> Callable[[dict[str, Any]], bool]:
    return lambda status: status.get("stage") == stage and status.get("phase") in phases


def in_phase(phase: str) -> Callable[[dict[str, Any]], bool]:
    return lambda status: status.get("phase") == phase


def read_specs(plane: ReleasePlane) -> dict[str, Any]:
    """Specs of the objects that a component release changes, by member."""
    stored = {s: [plane.read(s, kind, name) for kind, name in OBJECTS] for s in STAGES}
    return {s: [obj and obj["spec"] for obj in objects] for s, objects in stored.items()}


def test_component_goes_stage_by_stage_through_deaths_and_back(
    plane: ReleasePlane, tmp_path: Path
) -> None:
    plane.put("production", make_set("containerd-1.7"))
    before = read_specs(plane)
    payload = write_payload(tmp_path, make_component(), make_set())
    planned = plane.run("release", "plan", "-f", payload, "--pipeline", "online")
    assert "staging" in planned
    words = ("-f", payload, "--pipeline", "online", "--force-conflicts")
    plane.run("release", "start", "containerd", *words)

    def report(*stages: str) -> None:
        for stage in stages:
            for kind, name in OBJECTS:
                plane.report(stage, kind, name)

    with plane.running() as captain:
        plane.wait_for("containerd", in_stage("test", "Running"))
        assert read_specs(plane)["staging"] == [None, None]
        refused = plane.captain.kubectl("delete", RELEASES, "containerd", check=False).stderr
        assert "`kubenode release rollback containerd` restores" in refused
        staging = plane.members["staging"].part("kube-apiserver")
        staging.kill()
        plane.wait_for("containerd", in_stage("staging", "Running"), lambda: report("test"))
        plane.wait_for("containerd", lambda status: status["reason"] == "ClusterUnreachable")
        assert "staging" in plane.run("release", "explain", "containerd")
        captain.kill()
        plane.revive("staging")
        captain.start()
        waits = in_stage("production", "AwaitingApproval")
        plane.wait_for("containerd", waits, lambda: report("staging"))
        assert read_specs(plane)["production"] == before["production"]
        approve_production(plane)
        plane.wait_for("containerd", in_phase("Succeeded"), lambda: report("production"))
        assert all(
            set_["component"] == "containerd-2.1.4" for _, set_ in read_specs(plane).values()
        )
        plane.run("release", "rollback", "containerd")
        plane.wait_for("containerd", in_phase("RolledBack"))
        until(
            lambda: {"StageStarted", "RolledBack"} <= plane.list_events("containerd"), "Events", 120
        )
        plane.captain.kubectl("delete", RELEASES, "containerd", "--timeout=60s")
    assert read_specs(plane) == before


def test_captain_changes_no_spec_of_a_release(plane: ReleasePlane, tmp_path: Path) -> None:
    payload = write_payload(tmp_path, make_rule(name="own"))
    plane.run("release", "start", "own", "-f", payload, "--pipeline", "online")
    captain = plane.captain.kubeconfig_for(account("kubenode-captain"), ACCOUNT_GROUPS)
    words = ("--kubeconfig", captain, "patch", RELEASES, "own", "--type=merge", "-p")
    changes = json.dumps({"spec": {"state": "Rollback"}})
    answer = plane.captain.kubectl(*words, changes, check=False)
    assert "and not its spec" in answer.stderr
    plane.captain.kubectl("delete", RELEASES, "own", "--timeout=60s")


def approve_production(plane: ReleasePlane) -> None:
    """Approve as the user with that right alone, and under no other name."""
    manager = plane.captain.kubeconfig_for("max")
    approval = ("release", "approve", "containerd", "production")
    refused = plane.run(*approval, kubeconfig=manager, fails=True)
    assert "releases/approval" in refused
    approver = plane.captain.kubeconfig_for("ann")
    forged = {"spec": {"approvals": [{"stage": "production", "by": "max"}]}}
    words = ("patch", RELEASES, "containerd", "--type=merge", "-p")
    answer = plane.captain.kubectl(
        "--kubeconfig", approver, *words, json.dumps(forged), check=False
    )
    assert "by must be the user who approves, ann" in answer.stderr
    skip = {"spec": {"skips": [{"cluster": "production", "why": "x", "by": "max"}]}}
    for user, problem in ((manager, "releases/approval"), (approver, "the user who skips, ann")):
        answer = plane.captain.kubectl("--kubeconfig", user, *words, json.dumps(skip), check=False)
        assert problem in answer.stderr
    plane.run(*approval, kubeconfig=approver)
    removed = plane.captain.kubectl(
        *words, json.dumps({"spec": {"approvals": []}}), check=False
    ).stderr
    assert "an approval stays as it was written" in removed
    (entry,) = plane.captain.get(paths.custom(RELEASES, "containerd"))["spec"]["approvals"]
    assert (entry["stage"], entry["by"]) == ("production", "ann")


def make_remedy(plane: ReleasePlane, folder: Path) -> Program:
    """The Remedy operator of the member `test`, without Kube Defender."""
    access = ("--kubeconfig", str(plane.captain.kubeconfig), "--no-lease", "--health-port", "0")
    nobody = ("--defender-url", f"http://127.0.0.1:{free_port()}")
    return Program("remedy", ("run", "remedy", *access, *nobody), folder)


def test_rule_is_judged_by_the_remedy_operator_and_a_bad_one_stops_at_the_first_cluster(
    plane: ReleasePlane, tmp_path: Path
) -> None:
    remedy = make_remedy(plane, tmp_path)
    bad = make_rule(name="bad")
    bad["spec"]["when"] = {"fact": {"name": "no.such.fact"}}
    remedy.start()
    try:
        with plane.running():
            good = write_payload(tmp_path, make_rule(name="good"))
            plane.run("release", "start", "good", "-f", good, "--pipeline", "online")
            plane.wait_for("good", in_stage("staging", "Running"))
            plane.run("release", "abort", "good")
            plane.wait_for("good", in_phase("Aborted"))
            payload = write_payload(tmp_path, bad)
            plane.run("release", "start", "bad", "-f", payload, "--pipeline", "online")
            status = plane.wait_for("bad", in_phase("Paused"))
            assert status["reason"] == "ClustersFailed"
            assert "test failed: NodeRemedier/bad" in status["message"]
            assert plane.read("staging", "NodeRemedier", "bad") is None
            assert "kubenode release rollback bad" in plane.run("release", "explain", "bad")
            plane.run("release", "rollback", "bad")
            plane.wait_for("bad", in_phase("RolledBack"))
            assert plane.read("test", "NodeRemedier", "bad") is None
    finally:
        remedy.stop()


def test_field_of_another_manager_is_shown_and_one_of_our_own_rollback_is_taken(
    plane: ReleasePlane, tmp_path: Path
) -> None:
    rule = make_rule("Approve", name="shared")
    plane.members["test"].kubectl(
        "apply", "--server-side", "--field-manager=argocd", "-f", "-", stdin=json.dumps(rule)
    )
    payload = write_payload(tmp_path, make_rule("DryRun", name="shared"))
    with plane.running():
        for name in ("first", "second"):
            words = ("-f", payload, "--pipeline", "online", "--dry-run")
            plane.run("release", "start", name, *words)
            plane.run("release", "start", name, *words[:-1])
            if name == "first":
                waits = plane.wait_for(name, lambda s: s.get("reason") == "ApplyConflict")
                assert "argocd" in waits["message"]
                force = json.dumps({"spec": {"onConflict": "Force"}})
                plane.captain.kubectl("patch", RELEASES, name, "--type=merge", "-p", force)

            def applied() -> bool:
                live = plane.read("test", "NodeRemedier", "shared")
                return live is not None and live["spec"]["mode"] == "DryRun"

            plane.wait_for(name, lambda status: applied())
            plane.run("release", "rollback", name)
            plane.wait_for(name, in_phase("RolledBack"))
            live = plane.read("test", "NodeRemedier", "shared")
            assert live is not None
            assert live["spec"]["mode"] == "Approve"


class FaultyNodes:
    """Nodes of a member whose conditions a detector would report."""

    def __init__(self, cp: ControlPlane) -> None:
        self._cp = cp

    def create(self, *names: str) -> None:
        for name in names:
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
            self._cp.kubectl("apply", "-f", "-", stdin=json.dumps(node))

    def report(self, name: str, type_: str, status: str) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
        condition = {"type": type_, "status": status, "reason": "Test", "message": "", **times}
        body = json.dumps({"status": {"conditions": [condition]}})
        self._cp.kubectl("patch", "node", name, "--subresource=status", "-p", body)

    def delete(self) -> None:
        self._cp.kubectl("delete", "nodes", "--all")


PIPELINES = {"quick": "10s", "patient": "10m"}
"""Time in DryRun by pipeline: what is against a rule stops it before the time is over."""


def build_evidence_pipeline(name: str, dry_run_first: str) -> dict[str, Any]:
    pipeline = build_pipeline()
    pipeline["metadata"]["name"] = name
    pipeline["spec"]["stages"][0]["rules"] = {"dryRunFirst": dry_run_first}
    return pipeline


def make_prompt_rule(name: str, condition: str) -> dict[str, Any]:
    """A rule of mode Enforce that matches at once."""
    rule = make_rule("Enforce", name=name)
    rule["spec"] |= {
        "when": {"condition": {"type": condition, "status": "True"}},
        "startupGrace": "0s",
        "groupWait": "0s",
    }
    return rule


def test_rule_earns_enforce_by_evidence_of_the_remedy_operator_and_a_hasty_one_does_not(
    plane: ReleasePlane, tmp_path: Path
) -> None:
    for pipeline, dry_run_first in PIPELINES.items():
        plane.put("test", build_evidence_pipeline(pipeline, dry_run_first))
    nodes = FaultyNodes(plane.members["test"])
    nodes.create("broken", "flaky")
    remedy = make_remedy(plane, tmp_path)
    remedy.start()
    try:
        with plane.running():
            nodes.report("broken", "Broken", "True")
            nodes.report("flaky", "Flaky", "True")
            rules = (("earned", "Broken", "quick"), ("hasty", "Flaky", "patient"))
            for name, condition, pipeline in rules:
                payload = write_payload(tmp_path, make_prompt_rule(name, condition))
                plane.run("release", "start", name, "-f", payload, "--pipeline", pipeline)
            plane.wait_for("hasty", lambda status: has_fired(plane, "hasty"))
            assert read_rule(plane, "hasty")["spec"]["mode"] == "DryRun"
            nodes.report("flaky", "Flaky", "False")
            status = plane.wait_for("hasty", in_phase("Paused"))
            assert "1 nodes that recovered alone (at most 0): flaky" in status["message"]
            assert "EvidenceAgainst" in plane.run("release", "explain", "hasty")
            plane.wait_for("earned", in_stage("staging", "Running"))
            assert read_rule(plane, "earned")["spec"]["mode"] == "Enforce"
            assert read_rule(plane, "hasty")["spec"]["mode"] == "DryRun"
            assert plane.read("staging", "NodeRemedier", "hasty") is None
            explained = plane.run("release", "explain", "earned")
            assert "1 firings on 1 nodes, 0 recovered alone" in explained
            for name in ("earned", "hasty"):
                plane.run("release", "rollback", name)
                plane.wait_for(name, in_phase("RolledBack"))
    finally:
        remedy.stop()
        nodes.delete()


def read_rule(plane: ReleasePlane, name: str) -> dict[str, Any]:
    rule = plane.read("test", "NodeRemedier", name)
    assert rule is not None
    return rule


def has_fired(plane: ReleasePlane, name: str) -> bool:
    rule = plane.read("test", "NodeRemedier", name)
    return rule is not None and rule.get("status", {}).get("dryRun", {}).get("firings", 0) > 0
