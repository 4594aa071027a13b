"""Whether somebody signs, judged by what was signed before."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
from support.clock import T0

from kubenode.runtime.kube.objects import Lease
from machine.certificates.wire import SigningRequest
from machine.hostimport.preflight import Level
from machine.hostimport.signers import AGENT_SIGNER, operator_findings, signer_findings

MINUTE = timedelta(seconds=60)


def request(
    name: str, made: datetime, *, signed: bool, approved: bool = True, signer: str = AGENT_SIGNER
) -> SigningRequest:
    raw: dict[str, Any] = {
        "metadata": {"name": name, "creationTimestamp": made.isoformat()},
        "spec": {"signerName": signer},
        "status": {
            "conditions": [{"type": "Approved", "status": "True"}] if approved else [],
            "certificate": b"pem" if signed else b"",
        },
    }
    return msgspec.convert(msgspec.to_builtins(raw), SigningRequest)


def test_an_approved_request_that_nobody_signs_is_refused_by_name() -> None:
    seen = [request("old", T0 - 9 * MINUTE, signed=True), request("new", T0 - MINUTE, signed=False)]
    (found,) = signer_findings(seen, T0)
    assert found.level is Level.REFUSED and "has not signed new" in found.value


def test_nothing_is_said_where_nothing_is_known() -> None:
    assert signer_findings([], T0) == []
    young = request("young", T0 - MINUTE / 2, signed=False)
    waits = request("waits", T0 - 9 * MINUTE, signed=False, approved=False)
    other = request("other", T0 - 9 * MINUTE, signed=False, signer="example.com/other")
    assert signer_findings([young, waits, other], T0) == []


def test_a_newer_certificate_outweighs_an_older_failure() -> None:
    seen = [
        request("old", T0 - 9 * MINUTE, signed=False),
        request("new", T0 - MINUTE / 4, signed=True),
    ]
    assert signer_findings(seen, T0) == []


def lease(renewed: datetime | None) -> Lease:
    spec: dict[str, Any] = {"leaseDurationSeconds": 15}
    if renewed is not None:
        spec["renewTime"] = renewed.isoformat()
    return msgspec.convert({"metadata": {"name": "kubenode-machine"}, "spec": spec}, Lease)


def test_an_operator_that_leads_is_no_finding() -> None:
    assert operator_findings(lease(T0 - MINUTE), T0) == []


def test_an_operator_that_is_away_is_warned_of_with_what_to_run() -> None:
    for seen in (None, lease(None), lease(T0 - 2 * MINUTE)):
        (found,) = operator_findings(seen, T0)
        assert found.level is Level.WARNING and "kubenode run machine" in found.remedy
