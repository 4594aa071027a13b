"""Failure scenarios that lint must hold."""

import pytest
from support.lint_cases import EMPTY, ladder, named

from rules.lint import LintSeverity, lint


@pytest.mark.parametrize("steps", [EMPTY, [{"cordon": {}}, {"notify": {}}]])
def test_f10_a_rule_that_isolates_and_names_no_way_out_is_refused(
    steps: list[dict[str, object]],
) -> None:
    [told] = lint([named("isolates", onGiveUp=None, ladder=ladder(*steps))])
    assert (told.code, told.severity) == ("no-exit", LintSeverity.ERROR)


@pytest.mark.parametrize(
    "way_out",
    [
        {"onGiveUp": "Hold"},
        {"onGiveUp": "Release"},
        {"mode": "Approve"},
        {"ladder": ladder(*EMPTY, {"reboot": {}})},
        {"ladder": ladder(*EMPTY, {"waitForApproval": {}})},
        {
            "ladder": ladder(
                *EMPTY, checks=[{"agent": {"action": "RunCheck", "check": "d-state-tasks"}}]
            )
        },
    ],
)
def test_f10_a_repair_a_check_or_an_approval_is_a_way_out(way_out: dict[str, object]) -> None:
    rule = named("isolates", **({"onGiveUp": None, "ladder": ladder(*EMPTY)} | way_out))
    assert [told for told in lint([rule]) if told.severity is LintSeverity.ERROR] == []


@pytest.mark.parametrize("type_", ["KernelDeadlock", "ReadonlyFilesystem", "KernelReady"])
def test_f02_a_latched_condition_alone_replaces_no_node(type_: str) -> None:
    status = "False" if type_.endswith("Ready") else "True"
    when = {"condition": {"type": type_, "status": status, "for": "1m"}}
    rule = named("latched", when=when, ladder=ladder(*EMPTY, {"replace": {}}))
    assert "unproven-repair" in {told.code for told in lint([rule])}
