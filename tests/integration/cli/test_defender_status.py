"""`kubenode defender status` and `simulate`, on objects and on a running Kube Defender."""

import json
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.command import kubenode
from support.defender_objects import (
    ZONE,
    instant,
    job_object,
    node_object,
    permit_object,
    policy_object,
)
from support.embedded import EmbeddedPlane

from kubenode.runtime.clock import SystemClock

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]
MINUTE = timedelta(minutes=1)
LIMITS = [
    {"scope": "Cluster", "maxConcurrent": 2, "minHealthy": "50%"},
    {"scope": "Label", "label": ZONE, "maxConcurrent": 1},
]
NOW = SystemClock().now()
NODES = [node_object(f"n{i}", {ZONE: "abcdef"[i % 6]}) for i in range(12)]


@pytest.fixture(scope="module")
def plane() -> Iterator[EmbeddedPlane]:
    """Zone a: n0 and n6; n0 had its permit from -60 to -40 minutes, n6 from -40 to -20, n1 now."""
    hold = {"reason": "ConcurrencyLimit", "scope": f"{ZONE}=b", "message": "1 of 1"}
    spec: dict[str, Any] = {
        "limits": LIMITS,
        "pauses": [{"scope": "Node", "value": "n5", "by": "ann", "why": "cables"}],
        "windows": [],
    }
    policy = policy_object(**spec)
    policy["status"] = {
        "breaker": [
            {"scope": f"{ZONE}=c", "state": "Open", "since": instant(NOW), "why": "3 of 4 down"}
        ]
    }
    objects = [
        *NODES,
        policy,
        job_object("n0", NOW - 60 * MINUTE, phase="Succeeded"),
        job_object("n6", NOW - 60 * MINUTE, phase="Succeeded"),
        job_object("n1", NOW - 10 * MINUTE, phase="Running"),
        job_object("n7", NOW - 5 * MINUTE, phase="AwaitingPermit", hold=hold),
    ]
    with EmbeddedPlane() as plane:
        assert kubenode("install", "--kubeconfig", plane.kubeconfig).returncode == 0
        plane.api.load(json.loads(json.dumps(objects)))
        jobs = plane.get("/apis/kubenode.io/v1alpha1/remedyoperationjobs")["items"]
        uids = {job["metadata"]["name"]: job["metadata"]["uid"] for job in jobs}
        permits = [
            permit_object("p0", "n0", NOW - 60 * MINUTE, released=NOW - 40 * MINUTE),
            permit_object("p6", "n6", NOW - 40 * MINUTE, released=NOW - 20 * MINUTE),
            permit_object("p1", "n1", NOW - 10 * MINUTE),
        ]
        for permit in permits:
            holder = permit["spec"]["holder"]
            holder["uid"] = uids[holder["name"]]
        plane.api.load(permits)
        yield plane


def run(
    plane: EmbeddedPlane, *words: str | Path, code: int = 0
) -> subprocess.CompletedProcess[str]:
    result = kubenode("defender", *words, "--kubeconfig", plane.kubeconfig)
    assert result.returncode == code, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    return result


def rows(found: dict[str, Any], part: str, **fields: Any) -> list[dict[str, Any]]:
    return [row for row in found[part] if fields.items() <= row.items()]


class TestStatus:
    def test_everything_is_counted_from_the_objects(self, plane: EmbeddedPlane) -> None:
        found = json.loads(run(plane, "status", "-o", "json").stdout)
        assert found["ready"] == "not asked"
        assert found["nodes"]["Healthy"] == 12
        (cluster,) = rows(found, "budgets", scope="cluster", kind="maxConcurrent")
        assert (cluster["used"], cluster["limit"], cluster["room"]) == (1, 2, 1)
        (zone,) = rows(found, "budgets", scope=f"{ZONE}=b")
        assert (zone["used"], zone["room"]) == (1, 0)
        assert [p["name"] for p in found["permits"]] == ["p1"]
        assert rows(found, "breakers", scope=f"{ZONE}=c", state="Open")
        assert rows(found, "pauses", scope="node=n5", by="ann", until="resumed")
        assert rows(found, "queue", node="n7", reason="ConcurrencyLimit", place=None)

    def test_the_table_shows_the_tightest_scopes_and_wide_shows_all(
        self, plane: EmbeddedPlane
    ) -> None:
        told = run(plane, "status").stdout
        assert "Kube Defender was not asked (--url)" in told
        assert "QUEUE (as jobs say)" in told
        assert f"{ZONE}: 3 more" in told
        assert f"{ZONE}=f" not in told
        wide = run(plane, "status", "-o", "wide").stdout
        assert f"{ZONE}=f" in wide
        assert "PERMIT" in wide

    def test_yaml_is_the_same_as_json(self, plane: EmbeddedPlane) -> None:
        from ruamel.yaml import YAML

        found = YAML(typ="safe").load(run(plane, "status", "-o", "yaml").stdout)
        as_json = json.loads(run(plane, "status", "-o", "json").stdout)
        assert found["budgets"][0] == as_json["budgets"][0]

    @pytest.mark.parametrize(
        ("words", "code", "said"),
        [
            (("--url", "localhost:1"), 2, "--url: 'localhost:1' is no address"),
            (("--url", "http://127.0.0.1:1"), 1, "Kube Defender does not answer"),
            (
                ("--url", "http://127.0.0.1:1", "--token-file", "/absent"),
                2,
                "--token-file: /absent",
            ),
            (("-o", "xml"), 2, "table"),
        ],
    )
    def test_what_is_wrong_is_named(
        self, plane: EmbeddedPlane, words: tuple[str, ...], code: int, said: str
    ) -> None:
        assert said in run(plane, "status", *words, code=code).stderr


class TestSimulate:
    """Known: n0, n6 and n1 were granted; n6 waited 20 minutes for its zone; n7 waits for n1."""

    def file(self, folder: Path, **spec: Any) -> Path:
        path = folder / "policy.yaml"
        path.write_text(json.dumps(policy_object(**spec)))
        return path

    def test_the_present_policies_do_as_they_did(
        self, plane: EmbeddedPlane, tmp_path: Path
    ) -> None:
        file = self.file(tmp_path, limits=LIMITS)
        found = json.loads(run(plane, "simulate", "--policy", file, "-o", "json").stdout)
        assert found["requests"] == 4
        assert (found["was"]["granted"], found["was"]["waitMax"]) == (3, 1200)
        assert (found["present"]["granted"], found["present"]["waitMax"]) == (3, 1200)
        assert found["present"] == found["new"]
        assert found["differences"] == []

    def test_a_wider_policy_would_have_let_the_zone_repair_two(
        self, plane: EmbeddedPlane, tmp_path: Path
    ) -> None:
        file = self.file(tmp_path, limits=[{"scope": "Cluster", "maxConcurrent": 4}])
        found = json.loads(run(plane, "simulate", "--policy", file, "-o", "json").stdout)
        assert (found["new"]["granted"], found["new"]["waitMax"]) == (4, 0)
        assert found["new"]["mostDisrupted"] == 2
        told = {row["node"]: (row["present"], row["new"]) for row in found["differences"]}
        assert told["n6"] == ("after 20m", "at once")
        assert told["n7"] == (f"not granted: ConcurrencyLimit {ZONE}=b", "at once")

    def test_the_table_compares_and_says_what_it_cannot_know(
        self, plane: EmbeddedPlane, tmp_path: Path
    ) -> None:
        file = self.file(tmp_path, limits=[{"scope": "Cluster", "maxConcurrent": 0}])
        told = run(plane, "simulate", "--policy", file, "--since", "3h").stdout
        assert "4 requests from" in told
        assert "ConcurrencyLimit  cluster" in told
        assert "What this cannot know:" in told
        assert "no Kube Defender was asked (--url)" in told
        assert "the fleet is taken as it is today" in told

    def test_a_policy_of_another_name_comes_beside_the_present_ones(
        self, plane: EmbeddedPlane, tmp_path: Path
    ) -> None:
        path = tmp_path / "p.yaml"
        path.write_text(
            json.dumps(policy_object("other", limits=[{"scope": "Cluster", "maxConcurrent": 4}]))
        )
        found = json.loads(run(plane, "simulate", "--policy", path, "-o", "json").stdout)
        assert found["new"]["granted"] == 3
        alone = run(plane, "simulate", "--policy", path, "--alone", "-o", "json").stdout
        assert json.loads(alone)["new"]["granted"] == 4

    @pytest.mark.parametrize(
        ("since", "said"),
        [("soon", "--since: 'soon' is no duration"), ("999h", "is not between 1s and 168h")],
    )
    def test_a_span_that_is_none_is_a_usage_error(
        self, plane: EmbeddedPlane, tmp_path: Path, since: str, said: str
    ) -> None:
        file = self.file(tmp_path)
        assert said in run(plane, "simulate", "--policy", file, "--since", since, code=2).stderr

    def test_a_file_without_a_policy_or_with_a_bad_one_is_named(
        self, plane: EmbeddedPlane, tmp_path: Path
    ) -> None:
        bad = self.file(tmp_path, limits=[{"scope": "Label", "maxConcurrent": 1}])
        assert "spec.limits" in run(plane, "simulate", "--policy", bad, code=1).stderr
        (tmp_path / "none.yaml").write_text("kind: Pod\n")
        none = tmp_path / "none.yaml"
        assert "no DefenderPolicy" in run(plane, "simulate", "--policy", none, code=2).stderr
