"""What lint prints: lines for people, JSON for programs, SARIF 2.1.0 for code hosts."""

import json
from pathlib import Path
from typing import Any

import pytest

from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.lint import judged, lint
from kubenode.cli.options import Findings
from rules.lint import CODES

BAD = """\
apiVersion: kubenode.io/v1alpha1
kind: NodeRemedier
metadata: {name: bad}
spec:
  mode: Enforce
  faultClass: kernel_deadlock
  nodes: {all: true}
  when: {condition: {type: KernelDeadlock, for: 30s}}
  unless: {fact: {name: maintenance.active}}
  ladder:
    - name: isolate
      steps: [{cordon: {}}]
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "rules" / "my rule.yaml"
    path.parent.mkdir()
    path.write_text(BAD)
    return path


def printed(file: Path, output: Findings, capsys: pytest.CaptureFixture[str]) -> Any:
    assert lint([file], output=output) is Exit.FINDING
    return json.loads(capsys.readouterr().out)


def test_json_has_every_finding_with_its_place(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = printed(file, Findings.JSON, capsys)
    assert (log["errors"], log["fine"]) == (2, 0)
    first = next(f for f in log["findings"] if f["code"] == "unproven-repair")
    assert (first["file"], first["line"], first["column"]) == (str(file), 11, 7)
    assert (first["rule"], first["field"]) == ("bad", "spec.ladder[0]")
    assert first["severity"] == "error"


def test_sarif_has_what_the_standard_requires(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = printed(file, Findings.SARIF, capsys)
    assert (log["version"], log["$schema"].endswith("sarif-2.1.0.json")) == ("2.1.0", True)
    [run] = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "kubenode rules lint"
    assert driver["version"]
    ids = [rule["id"] for rule in driver["rules"]]
    assert ids == list(CODES)
    assert all(rule["shortDescription"]["text"] for rule in driver["rules"])
    assert len(run["results"]) == len(judged([file]).findings)
    for result in run["results"]:
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning")
        assert result["message"]["text"]
        [location] = result["locations"]
        physical = location["physicalLocation"]
        assert physical["artifactLocation"]["uri"] == "rules/my%20rule.yaml"
        assert physical["region"]["startLine"] >= 1
        assert physical["region"]["startColumn"] >= 1


def test_a_finding_keeps_its_fingerprint_when_lines_move(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def prints() -> list[str]:
        results = printed(file, Findings.SARIF, capsys)["runs"][0]["results"]
        return [result["partialFingerprints"]["ruleAndField/v1"] for result in results]

    before = prints()
    file.write_text(f"# a comment\n{BAD}")
    assert prints() == before
    assert len(set(before)) == len(before)


def test_broken_yaml_is_a_finding_at_its_place(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text("a: 1\nb: [1, 2\nc: 3\n")
    [told] = printed(file, Findings.JSON, capsys)["findings"]
    assert (told["line"], told["code"]) == (3, "unreadable")


def test_a_file_that_is_not_there_is_a_mistake_of_usage(tmp_path: Path) -> None:
    with pytest.raises(Refusal) as refused:
        lint([tmp_path / "absent.yaml"])
    assert refused.value.code is Exit.USAGE


def test_steps_that_this_version_cannot_do_are_told(file: Path) -> None:
    file.write_text(BAD.replace("[{cordon: {}}]", "[{cordon: {}}, {replace: {surge: First}}]"))
    told = [f for f in judged([file]).findings if f.code == "unavailable"]
    assert [(f.field, f.line) for f in told] == [("spec.ladder", 10)]
    assert "step replace with surge First is not available" in told[0].message
    assert told[0].message.endswith("the operator would refuse the rule")
    file.write_text(file.read_text().replace("mode: Enforce", "mode: DryRun"))
    (watching,) = (f for f in judged([file]).findings if f.code == "unavailable")
    assert watching.message.endswith("refuse the rule once its mode is Enforce or Approve")
