"""`kubenode rules explain`: of a live cluster, with rules loaded or not, and of recordings.

The embedded API server has the nodes; what the command finds is what the operator would find.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.command import kubenode
from support.embedded import EmbeddedPlane

pytestmark = pytest.mark.integration
LADDER = [{"name": "tell", "steps": [{"notify": {}}]}]
ZONE = "topology.kubernetes.io/zone"
AT = "2026-11-21T01:59:09Z"


HEARD = "2100-01-01T00:00:00Z"
"""In the far future: such a report is fresh."""


def rule(name: str, when: dict[str, Any], **more: Any) -> dict[str, Any]:
    does = more if "infer" in more else {"ladder": LADDER} | more
    return {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "NodeRemedier",
        "metadata": {"name": name},
        "spec": {"mode": "Enforce", "nodes": {"all": True}, "when": when} | does,
    }


def node(name: str, **conditions: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {ZONE: "a"}},
        "status": {
            "conditions": [
                {
                    "type": type_,
                    "status": status,
                    "reason": "Because",
                    "lastHeartbeatTime": HEARD,
                    "lastTransitionTime": AT,
                }
                for type_, status in ({"Ready": "True"} | conditions).items()
            ]
        },
    }


SICK = {"condition": {"type": "Sick", "for": "1h"}}
RULES = [
    rule("sick", {"all": [SICK, {"condition": {"type": "Other"}}]}),
    rule("marks", SICK, infer={"fact": "my.sick"}),
    rule("follows", {"fact": {"name": "my.sick"}}),
    rule("many", {"all": [SICK, {"fact": {"name": "zone.sameFault", "above": 1}}]}),
]


@pytest.fixture(scope="module")
def plane() -> Iterator[EmbeddedPlane]:
    with EmbeddedPlane() as plane:
        assert kubenode("install", "--kubeconfig", plane.kubeconfig).returncode == 0
        nodes = [node("n1", Sick="True", Other="False"), node("n2", Sick="True"), node("n3")]
        plane.api.load(json.loads(json.dumps([*RULES, *nodes])))
        yield plane


def explain(plane: EmbeddedPlane, name: str, *more: str | Path, on: str = "n1") -> dict[str, Any]:
    result = kubenode(
        "rules", "explain", "--node", on, "--rule", name, "-o", "json",
        "--kubeconfig", plane.kubeconfig, *more,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_each_leaf_is_told_with_what_it_is_and_what_is_missing(plane: EmbeddedPlane) -> None:
    found = explain(plane, "sick")
    assert found["matches"] == "false"
    held, other = found["when"]["members"]
    assert (held["truth"], held["source"]) == ("true", "Node condition")
    assert other["truth"] == "false"
    assert len(found["missing"]) == 1
    assert "Other" in found["missing"][0]


def test_the_text_for_people_has_the_tree(plane: EmbeddedPlane) -> None:
    result = kubenode(
        "rules", "explain", "--node", "n1", "--rule", "sick", "--kubeconfig", plane.kubeconfig
    )
    lines = result.stdout.splitlines()
    assert lines[0] == "rule sick, mode Enforce, node n1"
    assert any(line.strip().startswith("+ condition Sick=True") for line in lines)
    assert any(line.strip().startswith("- condition Other=True") for line in lines)


def test_derived_facts_are_followed_into_the_rules_that_infer_them(plane: EmbeddedPlane) -> None:
    assert explain(plane, "follows")["matches"] == "true"
    assert explain(plane, "follows", on="n3")["matches"] != "true"


def test_nodes_with_the_same_fault_are_counted(plane: EmbeddedPlane) -> None:
    found = explain(plane, "many")
    assert found["matches"] == "true"
    assert found["when"]["members"][1]["value"] == 2


def test_a_rule_of_a_file_is_explained_as_if_it_were_loaded(
    plane: EmbeddedPlane, tmp_path: Path
) -> None:
    file = tmp_path / "rule.yaml"
    file.write_text(json.dumps(rule("sick", SICK)))
    assert explain(plane, "sick", "--rules", file)["matches"] == "true"
    file.write_text(json.dumps(rule("new", {"fact": {"name": "my.sick"}})))
    assert explain(plane, "new", "--rules", file)["matches"] == "true"


@pytest.mark.parametrize(
    ("on", "name", "told"),
    [("n9", "sick", "node n9 is not in the cluster"), ("n1", "sik", "did you mean sick?")],
)
def test_what_is_not_there_is_told(plane: EmbeddedPlane, on: str, name: str, told: str) -> None:
    result = kubenode(
        "rules", "explain", "--node", on, "--rule", name, "--kubeconfig", plane.kubeconfig
    )
    assert result.returncode == 1
    assert told in result.stderr


def test_of_many_rules_a_node_is_told_those_that_say_something(tmp_path: Path) -> None:
    quiet = [rule(f"quiet{n}", {"condition": {"type": f"Q{n}"}}) for n in range(20)]
    fresh = rule("fresh", {"condition": {"type": "Fresh", "for": "50m"}})
    n1 = node("n1", Sick="True", Fresh="True")
    n1["status"]["conditions"][-1]["lastTransitionTime"] = HEARD
    with EmbeddedPlane() as plane:
        assert kubenode("install", "--kubeconfig", plane.kubeconfig).returncode == 0
        plane.api.load(json.loads(json.dumps([*RULES, *quiet, fresh, n1])))
        result = kubenode("explain", "node", "n1", "--kubeconfig", plane.kubeconfig)
    assert result.returncode == 0, result.stderr
    assert "rule sick, mode Enforce, node n1" in result.stdout
    assert "rule quiet3" not in result.stdout
    assert "rule fresh, mode Enforce, node n1" in result.stdout
    assert "20 further rules" in result.stdout


# -- of a recording ----------------------------------------------------------------------------

RECORDING = [
    {"at": "0s", "node": "a", "lifecycle": "created"},
    {"at": "10m", "node": "a", "condition": {"type": "Sick", "status": "True"}},
    {"at": "90m", "node": "a", "condition": {"type": "Sick", "status": "True"}},
]


@pytest.mark.parametrize(("at", "matches"), [("69m", "false"), ("71m", "true"), (None, "true")])
def test_a_recording_is_explained_at_any_moment(
    tmp_path: Path, at: str | None, matches: str
) -> None:
    recording, file = tmp_path / "r.jsonl", tmp_path / "rule.yaml"
    recording.write_text("".join(json.dumps(line) + "\n" for line in RECORDING))
    file.write_text(json.dumps(rule("sick", SICK)))
    when = ("--at", at) if at is not None else ()
    result = kubenode(
        "rules", "explain", "--node", "a", "--rule", "sick", "--rules", file,
        "--from", recording, "-o", "json", *when,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["matches"] == matches


def test_a_moment_that_is_none_is_a_mistake_of_usage(tmp_path: Path) -> None:
    recording, file = tmp_path / "r.jsonl", tmp_path / "rule.yaml"
    recording.write_text(json.dumps(RECORDING[0]))
    file.write_text(json.dumps(rule("sick", SICK)))
    result = kubenode(
        "rules", "explain", "--node", "a", "--rule", "sick", "--rules", file,
        "--from", recording, "--at", "noon",
    )  # fmt: skip
    assert result.returncode == 2
    assert "'noon' is no duration" in result.stderr
