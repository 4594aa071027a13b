"""What tools of others make of our objects: the real kstatus, and Argo CD's health evaluation."""

import pytest
from support.api_objects import GOOD
from support.components import GITOPS, require
from support.gitops import compute_argocd_health, compute_kstatus
from support.readiness_cases import CASES

from kubenode.api.readiness import RULES, UNOBSERVED, Progress

pytestmark = pytest.mark.integration
HEALTH = {
    Progress.CURRENT: ("Healthy",),
    Progress.IN_PROGRESS: ("Progressing", "Suspended"),
    Progress.FAILED: ("Degraded",),
}


@pytest.fixture(autouse=True, scope="module")
def _programs() -> None:
    require(GITOPS)


def test_kstatus_reads_the_progress_that_kubenode_means() -> None:
    statuses = compute_kstatus(case.as_object() for case in CASES)
    assert statuses == [str(case.progress) for case in CASES]


def test_argo_cd_reads_the_progress_that_kubenode_means() -> None:
    for case, health in zip(
        CASES, compute_argocd_health(case.as_object() for case in CASES), strict=True
    ):
        assert health in HEALTH[case.progress], case.name


def test_generation_that_is_not_observed_is_in_progress_for_both() -> None:
    ready = [case.as_object(generation=4) for case in CASES]
    assert set(compute_kstatus(ready)) == {"InProgress"}
    assert set(compute_argocd_health(ready)) == {"Progressing"}


def test_set_that_a_person_paused_is_suspended_in_argo_cd() -> None:
    paused = next(
        case
        for case in CASES
        if case.kind == "MachineComponentSet" and case.name.endswith("Progressing=Paused")
    )
    raw = paused.as_object()
    raw["status"]["conditions"].append({"type": "Paused", "status": "True", "reason": "User"})
    assert compute_argocd_health([raw]) == ["Suspended"]


def test_kind_without_a_desired_state_is_current_and_healthy() -> None:
    kinds = [raw for raw in GOOD.values() if raw["kind"] not in RULES]
    assert kinds
    assert set(compute_kstatus(kinds)) == {"Current"}
    assert set(compute_argocd_health(kinds)) == {"Healthy"}


def test_new_object_with_the_default_of_its_crd_is_in_progress() -> None:
    new = [
        raw | {"metadata": {**raw["metadata"], "generation": 1}, "status": dict(UNOBSERVED)}
        for raw in GOOD.values()
        if raw["kind"] in RULES
    ]
    assert set(compute_kstatus(new)) == {"InProgress"}
    assert set(compute_argocd_health(new)) == {"Progressing"}
