"""Condition NodeReady of a Machine whose host has not become a Node yet."""

from datetime import UTC, datetime
from typing import Any

import pytest
from support.machine_double import imported

from kubenode.api.v1alpha1 import Machine
from machine.machine.model import MachineObservation
from machine.machine.nodeready import LONGEST, TOKEN_REMEDY, node_ready

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LOG = "check healthz: refused; kubelet.service logged: E1128 cannot load configuration"
REFUSED = "kubelet.service logged: E1128 cannot create certificate signing request: Unauthorized"
GRANTED = {"kubelet": {"certificateExpiresAt": "2026-01-02T00:00:00Z"}}


def message(log: str | None, bootstrap: dict[str, Any] | None = None, node: str = "Join") -> str:
    """Return the message for a kubelet of this log; None: no kubelet has been assigned."""
    body = imported(node=node)
    kubelet = {"name": "kubelet", "revision": "1-0123456789", "state": "Verifying"}
    if log is not None:
        body["status"]["components"] = [{**kubelet, "message": log}]
    body["status"]["bootstrap"] = bootstrap or {}
    update = node_ready(MachineObservation(NOW, Machine.model_validate(body)))
    assert update is not None and update.reason == "Waiting"
    return update.message


@pytest.mark.parametrize(
    ("log", "bootstrap", "text"),
    [
        (None, None, "no component has started a kubelet"),
        ("", None, "its kubelet is Verifying and has no certificate; see its journal"),
        (LOG, None, f"has no certificate; the agent reports: {LOG}"),
        (REFUSED, None, f"{TOKEN_REMEDY}; the agent reports: {REFUSED}"),
        ("", GRANTED, "has a certificate and has not registered; see its journal"),
        (REFUSED, GRANTED, f"has not registered; the agent reports: {REFUSED}"),
    ],
)
def test_a_host_that_does_not_join_tells_why(
    log: str | None, bootstrap: dict[str, Any] | None, text: str
) -> None:
    assert text in message(log, bootstrap)
    assert (TOKEN_REMEDY in message(log, bootstrap)) == (log == REFUSED and bootstrap is None)


def test_a_message_with_a_long_log_is_cut() -> None:
    assert len(message("x" * 1024)) == LONGEST


def test_a_host_that_joins_in_its_own_way_is_only_waited_for() -> None:
    assert message(LOG, node="Expected") == "there is no Node m"
