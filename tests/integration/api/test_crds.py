"""A real kube-apiserver takes our CRDs, and holds people to the same rules as the models."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from support.api_objects import BAD, GOOD, IMMUTABLE, MUTABLE, Bad, changed, nested
from support.control_plane import ControlPlane

from devtools.crds import FOLDER
from kubenode.api.base import Resource
from kubenode.api.crd import definition
from kubenode.api.v1alpha1 import KINDS, Disruption, NodeRemedier, Step
from kubenode.api.v1alpha1.leaves import DEPTH
from kubenode.runtime.kube.paths import resource

pytestmark = pytest.mark.integration
BY_KIND: dict[str, type[Resource]] = {kind.__name__: kind for kind in KINDS}


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane) -> ControlPlane:
    """The control plane with our CRDs, installed the way a person does."""
    control_plane.kubectl("apply", "-f", FOLDER)
    names = [f"crd/{definition(kind)['metadata']['name']}" for kind in KINDS]
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", *names)
    return control_plane


@pytest.fixture
def clean(cluster: ControlPlane) -> Iterator[ControlPlane]:
    yield cluster
    for kind in KINDS:
        cluster.kubectl("delete", kind.resource.plural, "--all", "--wait=true")


def create(cluster: ControlPlane, data: dict[str, Any], *, dry_run: bool = False) -> str:
    """What the server says; "" when it takes the object. Checks no schema on the client's side."""
    args = ["create", "--validate=strict", "-f", "-", "-o", "name"]
    done = cluster.kubectl(
        *args, *(["--dry-run=server"] if dry_run else []), stdin=json.dumps(data), check=False
    )
    return "" if done.returncode == 0 else done.stderr


def stored(cluster: ControlPlane, data: dict[str, Any]) -> dict[str, Any]:
    plural, meta = BY_KIND[data["kind"]].resource.plural, data["metadata"]
    base, namespace = f"/apis/{data['apiVersion']}", meta.get("namespace")
    path = resource(base, plural, namespace=namespace, name=meta["name"])
    found: dict[str, Any] = cluster.get(path)
    return found


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_crd_is_established_and_structural(cluster: ControlPlane, kind: type[Resource]) -> None:
    name = definition(kind)["metadata"]["name"]
    crd = cluster.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
    conditions = {c["type"]: c["status"] for c in crd["status"]["conditions"]}
    assert conditions["Established"] == "True"
    assert conditions["NamesAccepted"] == "True"
    assert "NonStructuralSchema" not in conditions


def test_apply_again_changes_nothing(cluster: ControlPlane) -> None:
    said = cluster.kubectl("apply", "-f", FOLDER).stdout.splitlines()
    assert [line.rsplit(" ", 1)[1] for line in said] == ["unchanged"] * len(KINDS)


@pytest.mark.parametrize("name", GOOD)
def test_good_object_is_kept_whole_and_defaulted_as_the_model_does(
    clean: ControlPlane, name: str
) -> None:
    assert create(clean, GOOD[name]) == ""
    kind = BY_KIND[GOOD[name]["kind"]]
    ours = kind.from_user(GOOD[name])
    theirs = kind.from_user({k: v for k, v in stored(clean, GOOD[name]).items() if k != "status"})
    assert theirs.to_dict()["spec"] == ours.to_dict()["spec"]


@pytest.mark.parametrize("bad", [b for b in BAD if b.server], ids=lambda bad: bad.name)
def test_bad_object_is_refused_and_field_and_remedy_are_named(
    cluster: ControlPlane, bad: Bad
) -> None:
    said = create(cluster, bad.object(), dry_run=True)
    assert bad.field in said
    assert bad.says in said


def test_too_deep_is_refused_also_where_unknown_fields_are_dropped(cluster: ControlPlane) -> None:
    deep = changed(GOOD["remedier"], "spec.when", nested(DEPTH + 1))
    args = ("create", "--validate=ignore", "--dry-run=server", "-f", "-")
    said = cluster.kubectl(*args, stdin=json.dumps(deep), check=False).stderr
    assert "spec.when.not.all[0].not" in said


STEPS: list[dict[str, Any]] = [
    *({name: {}} for name in ("cordon", "uncordon", "collect", "migrate", "reboot", "powerOff")),
    *({name: {}} for name in ("powerOn", "powerCycle", "fence", "replace", "notify")),
    *({name: {}} for name in ("approveEvent", "waitForApproval")),
    {"label": {"key": "a"}},
    {"annotate": {"key": "a"}},
    {"wait": {"for": "1s"}},
    {"waitForEvent": {"until": ["Completed"]}},
    {"webhook": {"receiver": "a"}},
    {"createObject": {"template": "a"}},
    {"rollbackComponent": {"component": "a"}},
    {"agent": {"action": "RunCheck", "check": "a"}},
    {"agent": {"action": "SyncTime"}},
    {"agent": {"action": "ResetGPU"}},
    {"agent": {"action": "CleanDisk"}},
    {"agent": {"action": "CleanDisk", "params": {"target": "imagesInUse"}}},
]


@pytest.mark.parametrize("lowered", [d for d in Disruption if d is not Disruption.NODE])
def test_server_computes_the_class_of_every_step_as_the_model_does(
    cluster: ControlPlane, lowered: Disruption
) -> None:
    assert {name for step in STEPS for name in step} == {
        field.alias for field in Step.model_fields.values()
    }
    most = 8
    for start in range(0, len(STEPS), most):
        steps = STEPS[start : start + most]
        ladder = [
            {"name": f"r{i}", "disruption": str(lowered), "steps": [step]}
            for i, step in enumerate(steps)
        ]
        said = create(cluster, changed(GOOD["remedier"], "spec.ladder", ladder), dry_run=True)
        for i, step in enumerate(steps):
            # Servers before 1.32 name the type of the value, "object", before the message.
            cause = rf'spec\.ladder\[{i}\]\.disruption: Invalid value: ("object": )?lower'
            refused = re.search(cause, said) is not None
            computed = Step.model_validate(step).disruption
            assert refused == (lowered.weight < computed.weight), step


def test_every_leaf_is_known_at_every_depth(cluster: ControlPlane) -> None:
    """Also those that the CRD does not write out at the bottom are kept, with all their fields."""
    leaves: list[dict[str, Any]] = [
        {"condition": {"type": "Ready", "status": "Unknown", "for": "1m", "maxAge": "5m"}},
        {"event": {"reason": "Oops", "severity": "Warning", "count": 2, "within": "1h"}},
        {"hostEvent": {"class": "Reboot", "source": "AWS", "startsWithin": "1h"}},
        {"alert": {"name": "Node.*", "labels": {"severity": "page"}, "for": "5m"}},
        {"label": {"key": "a", "in": ["b", "c"]}},
        {"annotation": {"key": "a", "value": "b"}},
        {"taint": {"key": "a", "exists": False}},
        {"fact": {"name": "node.kernel", "in": ["5.10", 6]}},
        {"probe": {"name": "disk.used", "above": 0.9, "maxAge": "2m"}},
        {"absent": {"for": "5m", "fact": {"name": "node.ready", "is": True}}},
    ]
    when: dict[str, Any] = {"all": leaves}
    for depth in range(1, DEPTH + 1):
        rule = changed(GOOD["remedier"], "spec.when", when)
        said = cluster.kubectl(
            *("create", "--validate=strict", "--dry-run=server", "-o", "json", "-f", "-"),
            stdin=json.dumps(rule),
        )
        theirs = NodeRemedier.from_user(json.loads(said.stdout))
        assert theirs.spec.when == NodeRemedier.from_user(rule).spec.when, depth
        when = {"any": [when]}


@pytest.mark.parametrize("bad", [b for b in BAD if not b.server], ids=lambda bad: bad.name)
def test_what_the_server_cannot_tell_it_lets_pass(cluster: ControlPlane, bad: Bad) -> None:
    """If this fails the server learned it: mark the object as one that the server refuses."""
    assert create(cluster, bad.object(), dry_run=True) == ""


@pytest.mark.parametrize(("name", "at", "value"), IMMUTABLE)
def test_immutable_field_stays_as_it_was_made(
    clean: ControlPlane, name: str, at: str, value: object
) -> None:
    assert create(clean, GOOD[name]) == ""
    said = replace(clean, changed(stored(clean, GOOD[name]), at, value))
    assert f"{at.split('.')[1]} stays as it was made" in said


@pytest.mark.parametrize(("name", "at", "value"), MUTABLE)
def test_mutable_field_may_change(clean: ControlPlane, name: str, at: str, value: object) -> None:
    assert create(clean, GOOD[name]) == ""
    assert replace(clean, changed(stored(clean, GOOD[name]), at, value)) == ""


def replace(cluster: ControlPlane, data: dict[str, Any]) -> str:
    done = cluster.kubectl("replace", "-f", "-", stdin=json.dumps(data), check=False)
    return "" if done.returncode == 0 else done.stderr


def test_status_is_a_subresource_of_its_own(clean: ControlPlane) -> None:
    status = {"phase": "Running", "conditions": [], "rung": 1}
    assert create(clean, {**GOOD["job"], "status": status}) == ""
    assert "phase" not in stored(clean, GOOD["job"]).get("status", {})
    name = GOOD["job"]["metadata"]["name"]
    patch = json.dumps({"status": status, "spec": {"cancel": True}})
    clean.kubectl("patch", "knj", name, "--subresource=status", "--type=merge", "-p", patch)
    kept = stored(clean, GOOD["job"])
    assert (kept["status"]["phase"], kept["spec"]["cancel"]) == ("Running", False)


def test_two_conditions_of_one_type_are_refused(clean: ControlPlane) -> None:
    assert create(clean, GOOD["job"]) == ""
    once = {"type": "Drained", "status": "True", "lastTransitionTime": "2026-11-21T01:59:09Z"}
    patch = json.dumps({"status": {"conditions": [once, once]}})
    name = GOOD["job"]["metadata"]["name"]
    done = clean.kubectl(
        *("patch", "knj", name, "--subresource=status", "--type=merge", "-p", patch), check=False
    )
    assert "status.conditions[1]: Duplicate value: " in done.stderr


def test_jobs_are_found_by_node_name(clean: ControlPlane) -> None:
    other = changed(changed(GOOD["job"], "spec.nodeName", "n7"), "metadata.name", "n7-1")
    assert create(clean, GOOD["job"]) == create(clean, other) == ""
    found = clean.kubectl("get", "knj", "--field-selector=spec.nodeName=n7", "-o", "name").stdout
    assert found == "remedyoperationjob.kubenode.io/n7-1\n"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_short_name_and_category_list_it_with_our_columns(
    clean: ControlPlane, kind: type[Resource]
) -> None:
    good = next(good for good in GOOD.values() if good["kind"] == kind.__name__)
    assert create(clean, good) == ""
    table = clean.kubectl("get", kind.resource.short_name).stdout.splitlines()
    wanted = [c.name.upper() for c in kind.resource.columns if c.priority == 0]
    assert table[0].split() == ["NAME", *wanted]
    assert good["metadata"]["name"] in clean.kubectl("get", "kubenode").stdout
