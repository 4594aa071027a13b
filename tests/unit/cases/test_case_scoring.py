"""The numbers of the report, against examples that were counted by hand."""

from typing import Any

import pytest

from simulation.cases.form import Case, MustNot, When
from simulation.cases.scores import Prediction, broken, first_right, score
from simulation.cases.table import lines

from .test_case_form import CASE


def case(name: str, repair: str, **expected: Any) -> Case:
    wanted = {"fault_class": "f", "repair_class": repair, "first_action": "none", **expected}
    return Case.model_validate({**CASE, "id": name, "expected": wanted})


def said(name: str, repair: str, *plan: str, fault: str = "f", **more: Any) -> Prediction:
    body = {"id": name, "fault_class": fault, "repair_class": repair, "plan": list(plan), **more}
    return Prediction.model_validate(body)


def test_precision_recall_and_false_actions() -> None:
    cases = [
        case("right", "restart_service", first_action="restart_kubelet"),
        case("missed", "cordon_drain_reboot"),
        case("false", "none_observe"),
        case("quiet", "none_observe", also_ok=["notify_only"]),
        case("also", "evict_drain", also_ok=["notify_only"]),
        case("silent", "notify_only"),
    ]
    found = score(
        cases,
        {
            "right": said("right", "restart_service", "restart_kubelet", "wait_human"),
            "missed": said("missed", "none_observe"),
            "false": said("false", "restart_service", "restart_kubelet"),
            "quiet": said("quiet", "notify_only", "notify"),
            "also": said("also", "notify_only", "notify"),
        },
    )
    assert (found.cases, found.right, found.missing) == (6, 3, 1)
    assert (found.acts, found.acts_right, found.precision) == (2, 1, 0.5)
    assert (found.want_act, found.want_act_hit, found.recall) == (3, 2, 2 / 3)
    assert (found.want_quiet, found.false_actions) == (3, 1)
    assert (found.want_word, found.silent_misses) == (4, 2), "missed and silent"
    assert (found.excessive_count, found.under) == (1, 1)
    assert [j.case.id for j in found.wrong] == ["missed", "false", "silent"]
    assert "false: want none_observe, got restart_service" in "\n".join(lines(found))


def test_a_fault_that_people_are_told_of_is_no_silent_miss() -> None:
    cases = [
        case("told", "evict_drain"),
        case("held", "evict_drain"),
        case("refused", "notify_only"),
    ]
    found = score(
        cases,
        {
            "told": said("told", "none_observe", "notify"),
            "held": said("held", "hold_storm", "suppress"),
            "refused": said("refused", "parse_error"),
        },
    )
    assert (found.want_word, found.silent_misses) == (3, 0)


def test_an_allowed_class_that_breaks_a_must_not_is_wrong() -> None:
    rule = {"action": "reboot_os", "when": "always"}
    cases = [case("a", "cordon_drain_reboot", must_not=[rule])]
    found = score(cases, {"a": said("a", "cordon_drain_reboot", "cordon", "reboot_os")})
    assert (found.class_right, found.right, found.violations) == (1, 0, 1)


@pytest.mark.parametrize(
    ("action", "when", "plan", "parallel", "expected"),
    [
        ("drain", "always", ["cordon", "drain"], 1, True),
        ("any_repair", "always", ["probe_disk", "notify"], 1, False),
        ("any_repair", "always", ["cordon"], 1, True),
        ("reboot_os", "first", ["cordon", "drain", "reboot_os"], 1, True),
        ("reboot_os", "first", ["restart_kubelet", "reboot_os"], 1, False),
        ("prune_images", "sole", ["notify", "prune_images"], 1, True),
        ("prune_images", "sole", ["delete_exited_containers", "prune_images"], 1, False),
        ("reboot_os", "repeat", ["reboot_os", "cordon", "reboot_os"], 1, True),
        ("reboot_os", "unverified", ["cordon", "reboot_os"], 1, True),
        ("reboot_os", "unverified", ["probe_host", "cordon", "reboot_os"], 1, False),
        ("restart_kube_proxy", "many", ["restart_kube_proxy"], 4, True),
        ("restart_kube_proxy", "many", ["restart_kube_proxy"], 1, False),
    ],
)
def test_when_an_action_is_wrong(
    action: str, when: str, plan: list[str], parallel: int, expected: bool
) -> None:
    assert broken(MustNot(action=action, when=When(when)), plan, parallel) is expected


def test_what_a_person_approves_breaks_nothing() -> None:
    rule = {"action": "reboot_os", "when": "unapproved"}
    cases = [case("a", "cordon_wait_human", must_not=[rule])]
    plan = ("cordon", "wait_human", "reboot_os")
    assert score(cases, {"a": said("a", "cordon_wait_human", *plan)}).violations == 0


def test_another_node_or_too_many_jobs_break_a_case() -> None:
    cases = [case("a", "restart_service", target=None, max_jobs=1)]
    found = score(cases, {"a": said("a", "restart_service", target="a", jobs=2)})
    assert found.judged[0].violations == ("jobs", "target")


@pytest.mark.parametrize(
    ("wanted", "plan", "expected"),
    [
        ("cordon", ["probe_host", "notify", "cordon", "drain"], True),
        ("cordon", ["drain", "cordon"], False),
        ("probe_host", ["probe_host", "cordon"], True),
        ("probe_host", ["cordon", "probe_host"], False),
        ("suppress", ["probe_host", "suppress"], True),
        ("none", ["restart_kubelet"], False),
    ],
)
def test_the_first_step_that_counts(wanted: str, plan: list[str], expected: bool) -> None:
    assert first_right(wanted, plan) is expected
