"""`kubenode uninstall` where something is in the way: it says what, and what to do.

The whole way, with programs and a real API server, is tests/e2e/test_newcomers_path.py.
"""

import json
from collections.abc import Iterator, Mapping
from subprocess import CompletedProcess
from typing import Any

import pytest
from support.command import kubenode, started
from support.defender_objects import job_object, node_object
from support.embedded import EmbeddedPlane
from support.release_world import make_release, make_rule
from support.waiting import until

from kubenode.runtime.clock import SystemClock

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]
OURS = {"apiVersion": "kubenode.io/v1alpha1"}
IMPORTED = OURS | {
    "kind": "Machine",
    "metadata": {"name": "sh-113"},
    "spec": {"addresses": ["10.2.7.113"]},
}
MADE = OURS | {
    "kind": "Machine",
    "metadata": {"name": "w-1"},
    "spec": {"origin": "Provision", "classRef": "w"},
}
RELEASE = {
    "apiVersion": "v1",
    "kind": "Secret",
    "type": "helm.sh/release.v1",
    "metadata": {
        "name": "sh.helm.release.v1.mine.v1",
        "namespace": "kubenode-system",
        "labels": {"name": "mine", "owner": "helm"},
    },
}


@pytest.fixture
def plane() -> Iterator[EmbeddedPlane]:
    with EmbeddedPlane() as plane:
        assert kubenode("install", "--kubeconfig", plane.kubeconfig).returncode == 0
        yield plane


def uninstall(plane: EmbeddedPlane, *words: str) -> CompletedProcess[str]:
    return kubenode("uninstall", "--yes", *words, "--kubeconfig", plane.kubeconfig, limit=120)


def there(plane: EmbeddedPlane, plural: str) -> list[str]:
    items = plane.get(f"/apis/kubenode.io/v1alpha1/{plural}")["items"]
    return [item["metadata"]["name"] for item in items]


def create(plane: EmbeddedPlane, *objects: Mapping[str, Any]) -> None:
    plane.api.load(json.loads(json.dumps(objects)))


def test_machines_that_a_provider_made_are_never_deleted_by_the_way(plane: EmbeddedPlane) -> None:
    create(plane, MADE, IMPORTED)
    done = uninstall(plane)
    assert done.returncode == 1
    assert "deletes their instances: w-1" in done.stderr.replace("deleting them ", "")
    assert there(plane, "machines") == ["sh-113", "w-1"]


def test_releases_in_progress_are_named_and_nothing_is_deleted(plane: EmbeddedPlane) -> None:
    payload = {**make_rule(), "apiVersion": "kubenode.io/v1alpha1"}
    release = make_release(payload, name="rules-7").to_dict()
    status = {"phase": "Running", "snapshot": {"digest": release["spec"]["digest"]}}
    create(plane, IMPORTED, release | {"status": status})
    done = uninstall(plane)
    assert done.returncode == 1
    assert "Releases are in progress: rules-7" in done.stderr
    assert there(plane, "machines") == ["sh-113"]


def test_who_keeps_the_agent_is_named_and_nothing_is_left_without_programs(
    plane: EmbeddedPlane,
) -> None:
    create(plane, IMPORTED)
    done = uninstall(plane)
    assert done.returncode == 0, done.stderr
    assert "Machine sh-113 (10.2.7.113)" in done.stdout
    assert "nothing of KubeNode is left in this cluster" in done.stdout
    kinds = plane.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]
    spaces = plane.get("/api/v1/namespaces")["items"]
    names = {item["metadata"]["name"] for item in [*kinds, *spaces]}
    assert [name for name in names if "kubenode" in name] == []
    again = uninstall(plane)
    assert again.stdout.splitlines()[-1:] == done.stdout.splitlines()[-1:], "once more"
    assert "gone" not in again.stdout


def test_marks_whose_owners_are_gone_are_taken_off_nodes(plane: EmbeddedPlane) -> None:
    node, person = node_object("n1", {"kubenode.io/pool": "a"}), node_object("n2")
    node["metadata"]["annotations"] = {"kubenode.io/cordoned-by": "job-n1"}
    for each in (node, person):
        each["spec"] = {"unschedulable": True}
    create(plane, node, person)
    done = uninstall(plane)
    assert done.returncode == 0, done.stderr
    n1, n2 = (plane.get(f"/api/v1/nodes/{name}") for name in ("n1", "n2"))
    assert not n1["spec"].get("unschedulable") and not n1["metadata"].get("annotations")
    assert n1["metadata"]["labels"]["kubenode.io/pool"] == "a"
    assert n2["spec"]["unschedulable"] is True


def test_a_job_whose_operator_is_gone_is_waited_for_by_name(plane: EmbeddedPlane) -> None:
    job = job_object("n1", SystemClock().now(), phase="Running")
    job["metadata"]["finalizers"] = ["kubenode.io/remedy"]
    create(plane, job)
    done = uninstall(plane, "--timeout", "1s")
    assert done.returncode == 1
    assert "remedyoperationjobs: 1 are still there: job-n1" in done.stderr
    assert "kubenode-system/kubenode-remedy: nobody" in done.stderr
    assert "kubenode run all" in done.stderr


RULE = OURS | {
    "kind": "NodeRemedier",
    "metadata": {"name": "r1"},
    "spec": {
        "nodes": {},
        "when": {"condition": {"type": "Ready", "status": "False"}},
        "ladder": [{"name": "tell", "steps": [{"notify": {}}]}],
    },
}


def everything(plane: EmbeddedPlane) -> tuple[list[str], list[str]]:
    kinds = plane.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]
    return there(plane, "noderemediers"), sorted(item["metadata"]["name"] for item in kinds)


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [((), 2, "there is no terminal on which to ask; pass --yes"), (("--dry-run",), 0, "")],
)
def test_without_consent_nothing_is_deleted_and_the_plan_is_printed(
    plane: EmbeddedPlane, words: tuple[str, ...], code: int, text: str
) -> None:
    create(plane, RULE)
    before = everything(plane)
    done = kubenode("uninstall", *words, "--kubeconfig", plane.kubeconfig)
    assert (done.returncode, text in done.stderr) == (code, True), done.stderr
    assert f"from context embedded ({plane.server}, kubeconfig" in done.stdout
    assert "objects: 1 noderemediers" in done.stdout
    assert f"{len(before[1])} kinds, with no other objects" in done.stdout
    assert "namespaces: kubenode-system, kubenode-agents" in done.stdout
    assert everything(plane) == before


def test_kinds_stay_while_all_programs_run_in_one_process(plane: EmbeddedPlane) -> None:
    create(plane, RULE)
    with started("run", "all", "--kubeconfig", plane.kubeconfig, "--health-port", "0") as programs:
        until(lambda: holder(plane, "kubenode-all"), "the Lease is held", 60)
        done = uninstall(plane)
        assert programs.poll() is None
    assert done.returncode == 0, done.stderr
    assert "stop the holder of Lease kubenode-all (`kubenode run all`)" in done.stdout
    rules, kinds = everything(plane)
    assert rules == [] and "noderemediers.kubenode.io" in kinds


def test_the_namespace_that_a_person_names_is_not_deleted(plane: EmbeddedPlane) -> None:
    create(plane, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}})
    done = uninstall(plane, "-n", "elsewhere")
    assert done.returncode == 0, done.stderr
    names = [item["metadata"]["name"] for item in plane.get("/api/v1/namespaces")["items"]]
    assert "elsewhere" in names and "kubenode-system" not in names


def holder(plane: EmbeddedPlane, name: str) -> str:
    path = "/apis/coordination.k8s.io/v1/namespaces/kubenode-system/leases"
    leases = {item["metadata"]["name"]: item["spec"] for item in plane.get(path)["items"]}
    return str(leases.get(name, {}).get("holderIdentity") or "")


def test_kinds_stay_as_long_as_a_release_of_helm_is_there(plane: EmbeddedPlane) -> None:
    create(plane, RELEASE)
    done = uninstall(plane)
    assert done.returncode == 0, done.stderr
    assert "helm uninstall mine -n kubenode-system --wait" in done.stdout
    assert there(plane, "permits") == []
