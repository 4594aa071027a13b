"""How coverage is computed: from the rules themselves, row by row. Without the vendors' tables."""

import json
from pathlib import Path
from typing import Any

import pytest

from devtools.rule_coverage import main
from kubenode.api.v1alpha1 import NodeRemedier
from simulation.coverage import folder_of, wrong
from simulation.coverage.matches import serve
from simulation.coverage.page import page
from simulation.coverage.rows import NoData, Row, Signal, rows

DEADLOCK = Signal(condition=("KernelDeadlock", "True", "DockerHung"))
HUNG = Signal(event=("TaskHung", "task x blocked", "kernel-monitor"))
SKEW = Signal(alert=("NodeClockSkewDetected", (("instance", "10.0.0.5:9100"),)))
REBOOT = Signal(host_event=("Reboot", "Scheduled"))


def rule(name: str, when: dict[str, Any], **spec: Any) -> NodeRemedier:
    body = {
        "mode": "Enforce",
        "nodes": {"all": True},
        "when": when,
        "ladder": [{"name": "tell", "steps": [{"notify": {}}]}],
        **spec,
    }
    return NodeRemedier.from_user(
        {
            "apiVersion": "kubenode.io/v1alpha1",
            "kind": "NodeRemedier",
            "metadata": {"name": name},
            "spec": body,
        }
    )


@pytest.mark.parametrize(
    ("signal", "when"),
    [
        (DEADLOCK, {"condition": {"type": "KernelDeadlock", "for": "5m"}}),
        (HUNG, {"event": {"reason": "TaskHung", "count": 5}}),
        (SKEW, {"alert": {"name": "NodeClock.*"}}),
        (REBOOT, {"hostEvent": {"class": "Reboot", "phase": "Scheduled"}}),
    ],
    ids=["condition", "event", "alert", "hostEvent"],
)
def test_a_rule_that_matches_the_signal_serves_the_row(
    signal: Signal, when: dict[str, Any]
) -> None:
    found = serve(Row("t", "r", (signal,)), [rule("it", when)])
    assert (found.rules, found.confirmed, found.open) == (("it",), (), False)


def test_a_rule_that_asks_a_probe_serves_once_the_probe_agrees() -> None:
    probe = {"probe": {"name": "host.d_state_process", "is": True}}
    both = {"all": [{"condition": {"type": "KernelDeadlock"}}, probe]}
    found = serve(Row("t", "r", (DEADLOCK,)), [rule("sure", both)])
    assert (found.rules, found.confirmed) == ((), ("sure",))


def test_a_rule_whose_guard_is_the_signal_itself_does_not_serve() -> None:
    guard = {"condition": {"type": "KernelDeadlock", "reason": "^DockerHung$"}}
    held = rule("held", {"condition": {"type": "KernelDeadlock"}}, unless=guard)
    assert serve(Row("t", "r", (DEADLOCK,)), [held]).open


def test_rules_that_infer_and_rules_for_something_else_do_not_serve() -> None:
    other = rule("other", {"condition": {"type": "ReadonlyFilesystem"}})
    infer = {"fact": "node.suspect", "scope": "Node"}
    asks = {"condition": {"type": "KernelDeadlock"}}
    inferring = rule("inferring", asks, infer=infer, ladder=None)
    assert serve(Row("t", "r", (DEADLOCK,)), [other, inferring]).open


def test_a_fault_that_no_rule_reads_on_a_control_plane_node_is_an_error() -> None:
    asks = {"condition": {"type": "KernelDeadlock"}}
    workers = {
        "selector": {
            "matchExpressions": [
                {"key": "node-role.kubernetes.io/control-plane", "operator": "DoesNotExist"}
            ]
        }
    }
    repairing = rule("repairing", asks, nodes=workers)
    untold = serve(Row("t", "r", (DEADLOCK,)), [repairing])
    assert "repairing leaves control plane nodes alone" in wrong([untold], {})[0]
    told = serve(Row("t", "r", (DEADLOCK,)), [repairing, rule("telling", asks)])
    assert not wrong([told], {})
    assert told.control_plane == ("telling",)
    assert "[telling](../runbooks/telling.md) |" in page([told])


def test_a_row_without_a_signal_needs_an_answer() -> None:
    row = Row("alerts", "KubeletDown")
    open_, answered = serve(row, []), serve(row, [], "it names no node")
    assert open_.open and not answered.open
    assert "KubeletDown" in wrong([open_], {})[0]
    assert not wrong([answered], {("alerts", "KubeletDown"): "it names no node"})
    text = page([open_, answered])
    assert "**open**" in text and "not by a rule: it names no node" in text


def test_an_answer_for_a_row_that_a_rule_serves_is_out_of_date() -> None:
    served = serve(
        Row("t", "r", (DEADLOCK,)), [rule("it", {"condition": {"type": "KernelDeadlock"}})]
    )
    assert "it serves it" in wrong([served], {("t", "r"): "nobody does"})[0]


def test_tables_that_are_not_there_or_broken_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NoData, match=r"npd_rules\.json"):
        rows(tmp_path)
    (tmp_path / "npd_rules.json").write_text(json.dumps({"rules": [{"kind": "event"}]}))
    with pytest.raises(NoData, match="reason_when_bad"):
        rows(tmp_path)
    monkeypatch.setenv("KUBENODE_SHARED_DATA", str(tmp_path))
    assert folder_of(None) == tmp_path
    assert folder_of(tmp_path / "x") == tmp_path / "x"


def test_a_named_folder_without_the_tables_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBENODE_SHARED_DATA", str(tmp_path))
    assert main(["--check"]) == 1
    told = capsys.readouterr().err
    assert "rule coverage is not checked" in told and "KUBENODE_SHARED_DATA" in told


def test_where_nobody_put_the_tables_it_says_that_nothing_was_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("KUBENODE_SHARED_DATA", raising=False)
    monkeypatch.setattr("simulation.coverage.BESIDE", tmp_path / "nowhere")
    assert main(["--check"]) == 0
    assert "rule coverage is not checked" in capsys.readouterr().err
