"""`kubenode rules import`: what comes out can be linted and installed as it is."""

from pathlib import Path

import pytest
from support.command import kubenode

pytestmark = pytest.mark.integration

LIST = """\
apiVersion: v1
kind: List
items:
  - apiVersion: remediation.medik8s.io/v1alpha1
    kind: NodeHealthCheck
    metadata: {name: workers}
    spec:
      selector: {matchLabels: {pool: a}}
      remediationTemplate: {kind: SelfNodeRemediationTemplate, name: snr}
      backoff: {type: exponential, duration: 5m}
      unhealthyConditions:
        - {type: Ready, status: "False", duration: 300s}
  - apiVersion: cluster.x-k8s.io/v1beta1
    kind: MachineHealthCheck
    metadata: {name: machines}
    spec:
      clusterName: c1
      selector: {matchLabels: {pool: b}}
      unhealthyConditions:
        - {type: Ready, status: Unknown, timeout: soon}
"""


def test_the_rules_come_out_with_what_is_left_as_comments(tmp_path: Path) -> None:
    file = tmp_path / "theirs.yaml"
    file.write_text(LIST.replace("soon", "5m"))
    result = kubenode("rules", "import", file)
    assert result.returncode == 0, result.stderr
    assert "# spec.backoff: has no equivalent and was left out" in result.stdout
    assert "2 imported" in result.stderr
    ours = tmp_path / "ours.yaml"
    ours.write_text(result.stdout)
    linted = kubenode("rules", "lint", ours)
    assert linted.returncode == 0, linted.stdout
    assert "2 rules fine" in linted.stderr


def test_what_cannot_be_imported_has_its_place_and_the_rest_is_imported(tmp_path: Path) -> None:
    file = tmp_path / "theirs.yaml"
    file.write_text(LIST)
    result = kubenode("rules", "import", file)
    assert result.returncode == 1
    assert f"{file}:20:42: spec.unhealthyConditions[0].timeout: 'soon'" in result.stderr
    assert "name: workers" in result.stdout
    assert "name: machines" not in result.stdout
