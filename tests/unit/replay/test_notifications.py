"""`notified` of a rule test: who is notified, about what, and with which sentence."""

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from simulation.replay.testfile import cases
from simulation.replay.testing import LoadedOnce, run
from simulation.replay.timeline import Wrong

RULE = """\
apiVersion: kubenode.io/v1alpha1
kind: NodeRemedier
metadata: {name: sick}
spec:
  mode: Enforce
  faultClass: sick
  nodes: {all: true}
  notify: [oncall, tickets]
  when: {condition: {type: Sick, status: "True"}}
  groupWait: 0s
  ladder:
    - name: tell
      steps:
        - notify: {receivers: [chat], message: "kernel of the node is stuck"}
        - cordon: {}
    - name: ask
      steps: [{waitForApproval: {timeout: 5m}}, {reboot: {}}]
"""
TEST = """\
rules: [sick.yaml]
policy: none
tests:
- name: x
  timeline: [{at: 0s, node: a, condition: {type: Sick, status: "True"}}]
  expect: [{at: 1h, node: a, notified: %s}]
"""
STEP = 'on: notify, to: [chat], says: "kernel of the node is stuck"'
NO_ENGINE: LoadedOnce | None = None


def failures(folder: Path, notified: str, rule: str = RULE) -> list[str]:
    (folder / "sick.yaml").write_text(rule)
    path = folder / "sick.test.yaml"
    path.write_text(TEST % notified)
    (case,) = cases(path)
    return [f.difference.message for f in run(case, NO_ENGINE)]


def sent(folder: Path, rule: str = RULE) -> list[dict[str, object]]:
    """All notifications, as the failure of a wrong expectation lists them."""
    (folder / "sick.yaml").write_text(rule)
    path = folder / "sick.test.yaml"
    path.write_text(TEST % "[]")
    (case,) = cases(path)
    (failure,) = run(case, NO_ENGINE)
    return [YAML(typ="safe").load(line) for line in failure.difference.explain]


@pytest.fixture(scope="module")
def later(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Expectations that any notification after the first one meets."""
    many = len(sent(tmp_path_factory.mktemp("later"))) - 1
    return ", ".join(["{}"] * many)


def test_each_notification_has_its_recipients_and_its_sentence(tmp_path: Path) -> None:
    first, *later = sent(tmp_path)
    assert first == {"on": "notify", "to": ["chat"], "says": "kernel of the node is stuck"}
    assert later and all(each["to"] == ["oncall", "tickets"] for each in later)
    assert [each["on"] for each in later][-1] in ("NeedsHuman", "Failed")


def test_expectation_holds_with_texts_patterns_and_keys_left_out(
    tmp_path: Path, later: str
) -> None:
    named = later.replace("{}", "{to: [tickets, oncall]}")
    assert failures(tmp_path, f"[{{{STEP}}}, {named}]") == []
    assert failures(tmp_path, f'[{{says: "kernel*stuck"}}, {later}]') == []


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ('says: "kernel"', "1: expected {says: kernel}, is {on: notify, to: [chat], says: kernel"),
        ("to: [oncall]", "1: expected {to: [oncall]}, is {on: notify"),
        ("on: NeedsHuman", "1: expected {on: NeedsHuman}, is {on: notify"),
        ('says: "[k]ernel*"', "1: expected"),
    ],
)
def test_wrong_recipient_phase_or_sentence_fails(
    tmp_path: Path, later: str, wrong: str, why: str
) -> None:
    (message,) = failures(tmp_path, f"[{{{wrong}}}, {later}]")
    assert why in message


def test_missing_or_unexpected_notification_fails(tmp_path: Path) -> None:
    (message,) = failures(tmp_path, f"[{{{STEP}}}]")
    assert "notified: expected 1 notifications, is " in message


def test_rule_without_receivers_notifies_by_its_steps_alone(tmp_path: Path) -> None:
    quiet = RULE.replace("  notify: [oncall, tickets]\n", "")
    assert [each["on"] for each in sent(tmp_path, quiet)] == ["notify"]


def test_unknown_key_is_named(tmp_path: Path) -> None:
    with pytest.raises(Wrong, match="whom"):
        failures(tmp_path, "[{whom: oncall}]")
