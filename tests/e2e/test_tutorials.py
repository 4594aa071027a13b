"""The tutorials, followed on the demo that they start."""

import csv
import io
from pathlib import Path

import pytest
from support.components import CONTROL_PLANE, require
from support.tutorial import Reader

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

PATIENCE = 300.0
"""Seconds for what the page says comes by itself; a busy machine is several times slower."""
SEED = ("--seed", "7")


@pytest.fixture(autouse=True)
def kubectl() -> None:
    """Comes with the control plane; the API server is the demo's."""
    require(CONTROL_PLANE)


def test_first_rollout_stops_goes_on_and_goes_back(tmp_path: Path) -> None:
    reader = Reader("docs/tutorial-first-rollout.md", tmp_path)
    with reader.run_demo("--scenario rollout", *SEED):
        assert "n00003" in reader.type_block("kubenode machine list")
        reader.wait_for_output(
            "kubenode component sets", r"^containerd .* Paused .*RolledBack", PATIENCE
        )
        assert "starts nothing" in reader.type_block("kubenode component plan containerd", 1)
        planned = reader.type_block("kubectl apply -f node-exporter.yaml")
        assert "node-exporter-1.9.0  node-exporter-1.9.1  Restart  permit" in planned
        reader.type_block('"component":"node-exporter-1.9.1"')
        reader.wait_for_output(
            "kubenode component sets", r"^node-exporter .* Baking +1 \(1\)", PATIENCE
        )
        paused = reader.type_block("kubenode component pause node-exporter")
        assert "Paused" in next(row for row in paused.splitlines() if row[:8] == "node-exp")
        reader.type_block("kubenode component resume node-exporter")
        reader.wait_for_output("kubenode component sets", r"^node-exporter .* 2 \(5\)", PATIENCE)
        reader.type_block('"component":"containerd-2.1.3"')
        reader.wait_for_output("kubenode component sets", r"^containerd .* RollingBack", PATIENCE)
    assert reader.untyped_blocks() == []


def test_first_rule_ends_in_a_healed_node(tmp_path: Path) -> None:
    reader = Reader("docs/tutorial-first-rule.md", tmp_path, NODE="n00009")
    rule = "disk-wearing-out"
    reader.type_block("kubenode rules schema")
    reader.type_block("kubenode rules lint my-rules")
    reader.type_block("kubenode rules test my-rules")
    reader.save_block('"lifecycle"', "worn.jsonl")
    assert rule in reader.type_block("kubenode rules replay --from worn.jsonl")
    with reader.run_demo("--scenario quiet", *SEED):
        reader.type_block("kubectl apply -f my-rules")
        reader.type_block("NODE=n00009", 0, 1)
        shadowed = "kubenode job list --node $NODE --phase Shadowed -o wide"
        reader.wait_for_output(shadowed, rule, PATIENCE)
        reader.type_block('"mode":"Enforce"')
        jobs = "kubectl get knj -l kubenode.io/remedier=disk-wearing-out"
        reader.wait_for_output(jobs, "Verifying", PATIENCE)
        reader.type_block("SpareFine")
        reader.wait_for_output(jobs, "Succeeded", PATIENCE)
    assert reader.untyped_blocks() == []


def test_first_week_with_kube_defender(tmp_path: Path) -> None:
    reader = Reader("docs/tutorial-defender-week.md", tmp_path)
    with reader.run_demo("--nodes 60", *SEED):
        reader.wait_for_output("kubectl get defenderpolicies", r"^default ", PATIENCE)
        read = reader.type_block("kubectl get defenderpolicies")
        assert "maxConcurrent" in read and "minHealthy" in read
        assert "ruled by default" in reader.type_block("kubenode defender explain n00009", 0, 1)
        reader.wait_for_output("kubenode job list --open", r"^n\d{5}-", PATIENCE)
        explained = reader.type_block("kubenode pause --scope zone=zone-a", 1)
        assert "no, Paused: " in explained and "switch is being replaced" in explained
        assert "resumed" in reader.type_block("kubenode resume --scope zone=zone-a")
        assert "WITH THE NEW" in reader.type_block(
            "kubenode defender simulate --policy memory.yaml"
        )
        reader.type_block("kubectl apply -f memory.yaml")
        reader.wait_for_output("kubenode defender status", r"^memory +cluster +rate ", PATIENCE)
        assert "no, Excluded: " in reader.type_block("kubenode.io/hands-off=true", 1)
        reader.type_block("kubenode.io/hands-off-")
    with reader.run_demo("--scenario storm", *SEED):
        reader.wait_for_output(
            "kubenode defender status", r"^default +\S*zone=\S+ +Open ", PATIENCE
        )
    assert reader.untyped_blocks() == []


def test_insight_shows_which_kernel_fails_and_that_the_release_helped(tmp_path: Path) -> None:
    reader = Reader("docs/tutorial-insight.md", tmp_path)
    worst = "kubenode insight lemons --min 10 --since 2160h"
    with reader.run_demo("--seed-history", *SEED):
        address = "$KUBENODE_INSIGHT_URL/csv/fault-sums?days=14"
        sums = "kubenode insight faults --by class --every week --since 2160h"
        reader.wait_for_output(sums, r"kernel_deadlock", PATIENCE)
        reader.wait_for_output(worst, r"(?s)(demo .*){3}", PATIENCE)
        kernels = reader.type_block("--class kernel_deadlock --by kernel")
        assert kernels.count("6.1.0-28-amd64") >= 12
        racks = reader.type_block("--by rack")
        assert {"zone-a-r000", "zone-b-r000", "zone-c-r000"} <= set(racks.split())
        weeks = csv.DictReader(io.StringIO(reader.type_block(address)))
        rows = {row["value"]: row for row in weeks}
        old, new = rows["6.1.0-28-amd64"], rows["6.1.0-29-amd64"]
        assert (new["firstHalf"], old["secondHalf"]) == ("0", "0")
        assert 3 * int(new["secondHalf"]) < int(old["firstHalf"])
        assert "kernel-deadlock  isolate" in reader.type_block("kubenode insight healing")
        page = reader.type_block("kubenode insight incident $JOB")
        assert "Closed" in page and "What worked for the same rule and fault:" in page
    assert reader.untyped_blocks() == []


def test_first_release_goes_through_three_clusters_and_back(tmp_path: Path) -> None:
    reader = Reader("docs/tutorial-release.md", tmp_path)
    with reader.run_demo("--scenario release", "--for", "14m"):
        rolled_back = r"^disk-nearly-full-3 .* RolledBack"
        reader.wait_for_output("kubenode release status", rolled_back, PATIENCE)
        assert "s-01  Connected" in reader.type_block("kubenode member list")
        explained = reader.type_block("kubenode release explain")
        assert "RolledBack" in explained
        planned = reader.type_block("kubenode release plan -f")
        assert "production  1         Before    p-01" in planned
        asks = r"^ten-minutes .* AwaitingApproval"
        reader.wait_for_output("kubenode release status", asks, PATIENCE)
        reader.type_block("release approve ten-minutes")
        succeeded = r"^ten-minutes .* Succeeded"
        reader.wait_for_output("kubenode release status", succeeded, PATIENCE)
        reader.type_block("release rollback ten-minutes")
        returned = r"^ten-minutes .* RolledBack"
        reader.wait_for_output("kubenode release status", returned, PATIENCE)
    assert reader.untyped_blocks() == []
