"""Which pod `kubenode dashboard` forwards to, and to which addresses it sends a token."""

from typing import Any

import pytest

from kubenode.cli.dashboard_command import check_url
from kubenode.cli.dashboard_pod import choose_pod
from kubenode.cli.exits import Exit, Refusal


def pod(name: str, ready: str = "True", **metadata: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": ready}]
    return {"metadata": {"name": name, **metadata}, "status": {"conditions": conditions}}


def test_the_leader_is_chosen_if_it_is_ready() -> None:
    pods = [pod("defender-0"), pod("defender-1")]
    assert choose_pod(pods, "defender-1-0a1b2c3d") == "defender-1"
    assert choose_pod([pod("defender-0"), pod("defender-1", "False")], "defender-1-x") == (
        "defender-0"
    )


def test_without_a_leader_the_first_ready_pod_is_chosen() -> None:
    pods = [pod("defender-2"), pod("defender-1"), pod("defender-0", "False")]
    assert choose_pod(pods, "") == "defender-1"


@pytest.mark.parametrize(
    "pods",
    [
        [],
        [pod("defender-0", "False")],
        [pod("defender-0", deletionTimestamp="2026-01-01T00:00:00Z")],
        [{"metadata": {"name": "defender-0"}}],
    ],
    ids=["none", "not ready", "deleted", "pending"],
)
def test_a_pod_that_does_not_serve_is_not_chosen(pods: list[dict[str, Any]]) -> None:
    assert choose_pod(pods, "defender-0-x") is None


@pytest.mark.parametrize(
    "url",
    ["", "https://dashboard.example", "https://host:8443/kubenode", "http://127.0.0.1:8084"],
)
def test_a_token_is_sent_encrypted_or_on_this_host(url: str) -> None:
    check_url(url)


@pytest.mark.parametrize(
    "url",
    ["http://dashboard.example", "dashboard.example", "ftp://host", "https://", "https://h/?a=b"],
)
def test_a_token_is_sent_nowhere_else(url: str) -> None:
    with pytest.raises(Refusal, match=r"^--url: ") as refused:
        check_url(url)
    assert refused.value.code is Exit.USAGE
