"""Checks that certificates of agents are signed and approved, from earlier requests. Pure."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from kubenode.runtime.kube.objects import Lease
from machine.certificates.wire import APPROVED, SigningRequest
from machine.hostimport.preflight import Level, PreflightFinding

AGENT_SIGNER = "kubernetes.io/kube-apiserver-client"
SIGNED_WITHIN = timedelta(seconds=60)
"""Time after which an approved request must be signed. A running signer needs less than a second.
"""
LEASE_LATE = 4
"""Multiple of the Lease duration after which an operator counts as gone. Clocks differ a little."""


def signer_findings(requests: Sequence[SigningRequest], now: datetime) -> list[PreflightFinding]:
    """Return a refusal if the newest approved request for the agents' signer has not been
    signed.
    """
    ours = [r for r in requests if r.spec.signer_name == AGENT_SIGNER and r.condition(APPROVED)]
    due = [r for r in ours if _made(r, now) <= now - SIGNED_WITHIN or r.status.certificate]
    if not due:
        return []
    newest = max(due, key=lambda r: _made(r, now))
    if newest.status.certificate:
        return []
    return [
        PreflightFinding(
            Level.REFUSED,
            "signer",
            f"{AGENT_SIGNER} has not signed {newest.metadata.name}, which is approved",
            "give kube-controller-manager --cluster-signing-cert-file and -key-file, and look at"
            " its log",
        )
    ]


def _made(request: SigningRequest, now: datetime) -> datetime:
    return request.metadata.creation_timestamp or now


def operator_findings(lease: Lease | None, now: datetime) -> list[PreflightFinding]:
    """Return a warning unless the operator's leader renews its Lease.

    lease: the Lease of the leader, None if there is none.
    """
    renewed = None if lease is None else lease.spec.renew_time
    if lease is not None and renewed is not None:
        late = now - renewed
        if late <= timedelta(seconds=LEASE_LATE * max(lease.spec.lease_duration_seconds, 1)):
            return []
        value = f"it has not led since {renewed:%Y-%m-%dT%H:%M:%SZ}"
    else:
        value = "it has never led"
    how = "run `kubenode run machine` (or `run all`): it makes tokens and approves certificates"
    return [PreflightFinding(Level.WARNING, "Machine operator", value, how)]
