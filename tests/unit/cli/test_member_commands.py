"""`kubenode member`: what is refused before a cluster is reached, and the row of a member."""

from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

from kubenode.api.v1alpha1 import MemberCluster
from kubenode.cli.app import app
from kubenode.cli.member_identity import build_identity, build_member, find_captain, is_imported
from kubenode.cli.member_list import build_row

NOW = datetime(2026, 11, 29, 1, 0, tzinfo=UTC)


@pytest.mark.parametrize("command", ["import", "remove"])
def test_no_cluster_is_the_member_by_default(command: str) -> None:
    done = CliRunner().invoke(app, ["member", command, "east"], env={"COLUMNS": "200"})
    assert done.exit_code == 2 and "--member-context" in done.output


@pytest.mark.parametrize("label", ["stage", "=test"])
def test_a_label_is_a_key_and_a_value(label: str) -> None:
    words = ["member", "import", "east", "--member-context", "east", "--label", label]
    done = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
    assert done.exit_code == 2 and "KEY=VALUE" in done.output


def test_a_new_member_is_pending() -> None:
    row = build_row(MemberCluster.model_validate(build_member("east", {"stage": "test"})), NOW)
    assert (row["phase"], row["machines"], row["contact"]) == ("Pending", None, "")
    assert "stage=test" in row["labels"]


def test_expired_credentials_have_no_time_left() -> None:
    made = build_member("east", {}) | {"status": {"credentialsExpireAt": "2026-11-28T00:00:00Z"}}
    assert build_row(MemberCluster.model_validate(made), NOW)["expires"] == "0s"


def test_an_identity_belongs_to_one_captain() -> None:
    assert {find_captain(obj) for _, obj in build_identity("uid-1")} == {"uid-1"}
    assert find_captain({"metadata": {}}) == ""
    assert is_imported(build_member("east", {})) and not is_imported({"metadata": {}})
