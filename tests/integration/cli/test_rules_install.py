"""`kubenode rules install` and `list`, against the embedded API server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.command import kubenode
from support.embedded import EmbeddedPlane

from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.cli.library import packs
from kubenode.cli.rules_packs import DIGEST, digest

pytestmark = pytest.mark.integration
PACKS = packs()
LADDERS = {name: sum(r.spec.ladder is not None for r in some) for name, some in PACKS.items()}
PACK = min((name for name in PACKS if name and LADDERS[name] > 1), key=lambda n: len(PACKS[n]))
RULES = sorted(rule.metadata.name for rule in PACKS[PACK])
FIRST = next(rule.metadata.name for rule in PACKS[PACK] if rule.spec.ladder is not None)


@pytest.fixture(scope="module")
def installed() -> Iterator[EmbeddedPlane]:
    with EmbeddedPlane() as plane:
        assert kubenode("install", "--kubeconfig", plane.kubeconfig).returncode == 0
        yield plane


@pytest.fixture
def plane(installed: EmbeddedPlane) -> Iterator[EmbeddedPlane]:
    """Without rules."""
    yield installed
    installed.kubectl("delete", "knrm", "--all")


def rules(plane: EmbeddedPlane) -> dict[str, Any]:
    items = plane.get("/apis/kubenode.io/v1alpha1/noderemediers")["items"]
    return {item["metadata"]["name"]: item for item in items}


def install(plane: EmbeddedPlane, *arguments: str, code: int = 0) -> str:
    result = kubenode("rules", "install", *arguments, "--kubeconfig", plane.kubeconfig)
    assert result.returncode == code, result.stdout + result.stderr
    return result.stdout


def test_a_pack_is_installed_in_dry_run_and_again_without_a_change(plane: EmbeddedPlane) -> None:
    assert f"{PACK}/{FIRST} created in mode" in install(plane, PACK)
    first = rules(plane)
    assert sorted(first) == RULES
    modes = {rule["spec"]["mode"] for rule in first.values() if "ladder" in rule["spec"]}
    assert modes == {"DryRun"}
    assert f"{PACK}/{FIRST} unchanged" in install(plane, PACK)
    assert rules(plane) == first


def test_a_dry_run_writes_nothing(plane: EmbeddedPlane) -> None:
    assert f"{PACK}/{FIRST} created in mode DryRun (dry run)" in install(
        plane, f"{PACK}/{FIRST}", "--dry-run"
    )
    assert rules(plane) == {}


def test_the_mode_that_a_person_chose_stays_unless_another_is_asked_for(
    plane: EmbeddedPlane,
) -> None:
    one = f"{PACK}/{FIRST}"
    install(plane, one)
    patch = '{"spec": {"mode": "Approve"}}'
    plane.kubectl("patch", "knrm", FIRST, "--type=merge", "-p", patch)
    assert "unchanged" in install(plane, one)
    assert rules(plane)[FIRST]["spec"]["mode"] == "Approve"
    assert "updated in mode Enforce" in install(plane, one, "--mode", "Enforce")
    assert rules(plane)[FIRST]["spec"]["mode"] == "Enforce"


def test_a_rule_that_a_person_changed_is_left_alone(plane: EmbeddedPlane) -> None:
    one = f"{PACK}/{FIRST}"
    install(plane, one)
    plane.kubectl("patch", "knrm", FIRST, "--type=merge", "-p", '{"spec": {"priority": 13}}')
    before = rules(plane)
    assert "left alone: a person changed it" in install(plane, one, code=1)
    assert rules(plane) == before
    listed = kubenode("rules", "list", "--cluster", "-o", "json", "--kubeconfig", plane.kubeconfig)
    [item] = json.loads(listed.stdout)
    assert (item["name"], item["pack"], item["changed"]) == (FIRST, PACK, "by a person")


def test_a_rule_of_an_older_library_is_updated(plane: EmbeddedPlane) -> None:
    one = f"{PACK}/{FIRST}"
    install(plane, one)
    rule = rules(plane)[FIRST]
    rule["spec"]["priority"] = 13
    older = NodeRemedier.model_validate(rule, extra="ignore")
    rule["metadata"]["annotations"][DIGEST] = digest(older)
    plane.kubectl("replace", "-f", "-", stdin=json.dumps(rule))
    assert "updated in mode DryRun" in install(plane, one)
    assert rules(plane)[FIRST]["spec"]["priority"] != 13


def test_a_rule_of_the_same_name_that_is_not_ours_is_left_alone(plane: EmbeddedPlane) -> None:
    spec = {
        "mode": "Off",
        "nodes": {"all": True},
        "when": {"condition": {"type": "Mine"}},
        "ladder": [{"name": "tell", "steps": [{"notify": {}}]}],
    }
    mine = {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "NodeRemedier",
        "metadata": {"name": FIRST},
        "spec": spec,
    }
    plane.kubectl("create", "-f", "-", stdin=json.dumps(mine))
    assert "not of the library" in install(plane, f"{PACK}/{FIRST}", code=1)
    assert rules(plane)[FIRST]["spec"]["when"]["condition"]["type"] == "Mine"


def test_what_is_not_in_the_library_is_told_before_anything_is_written(
    plane: EmbeddedPlane,
) -> None:
    result = kubenode("rules", "install", PACK, "kernal", "--kubeconfig", plane.kubeconfig)
    assert result.returncode == 2
    assert "pack 'kernal' is not in the library" in result.stderr
    assert rules(plane) == {}


def test_without_our_kinds_the_remedy_is_named() -> None:
    with EmbeddedPlane() as bare:
        result = kubenode("rules", "install", PACK, "--kubeconfig", bare.kubeconfig)
        assert result.returncode == 1
        assert "kubenode install" in result.stderr


def test_the_library_is_listed_without_a_cluster() -> None:
    table = kubenode("rules", "list", "--pack", PACK)
    assert table.returncode == 0
    assert table.stdout.splitlines()[0].split() == ["NAME", "PACK", "MODE", "PRIORITY"]
    items = json.loads(kubenode("rules", "list", "-o", "json").stdout)
    assert {item["name"] for item in items if item["pack"] == PACK} == set(RULES)


def test_lint_with_a_cluster_knows_its_rules_and_conditions(
    plane: EmbeddedPlane, tmp_path: Path
) -> None:
    spec = {"mode": "Off", "faultClass": "own", "nodes": {"all": True}, "priority": 1}
    ladder = [{"name": "tell", "steps": [{"notify": {}}]}]
    rule = {"apiVersion": "kubenode.io/v1alpha1", "kind": "NodeRemedier"}
    inferring = rule | {
        "metadata": {"name": "infers"},
        "spec": {
            "nodes": {"all": True},
            "when": {"condition": {"type": "KernelDeadlock"}},
            "infer": {"fact": "my.fact"},
        },
    }
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
        "status": {"conditions": [{"type": "OurOwnFault", "status": "False"}]},
    }
    for obj in (inferring, node):
        plane.kubectl("create", "-f", "-", stdin=json.dumps(obj))
    plane.kubectl("replace", "--raw", "/api/v1/nodes/n1/status", "-f", "-", stdin=json.dumps(node))
    when = {"all": [{"fact": {"name": "my.fact"}}, {"condition": {"type": "OurOwnFault"}}]}
    file = tmp_path / "mine.yaml"
    mine = rule | {"metadata": {"name": "mine"}, "spec": spec | {"when": when, "ladder": ladder}}
    file.write_text(json.dumps(mine))
    assert kubenode("rules", "lint", file).returncode == 1
    result = kubenode(
        "rules", "lint", "--strict", "--cluster", "--kubeconfig", plane.kubeconfig, file
    )
    assert (result.returncode, result.stdout) == (0, ""), result.stderr
