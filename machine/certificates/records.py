"""Records of granted certificates in the Machine's status. Pure."""

from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Any

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import Machine
from kubenode.api.v1alpha1.machine import REISSUE
from kubenode.api.v1alpha1.machinestatus import KubeletCertificate, MachineBootstrap
from kubenode.runtime.tls.certificates import UnreadablePem, ends_at
from machine.certificates.case import CertificateOwner
from machine.certificates.kinds import AGENT, KUBELET, CertificateKind
from machine.certificates.wire import FAILED, SigningRequest

Record = MachineBootstrap | KubeletCertificate
NOTHING = KubeletCertificate()


def owner_of(
    machine: Machine,
    kind: CertificateKind,
    rivals: tuple[str, ...] = (),
    *,
    older_node: bool = False,
) -> CertificateOwner:
    """Return the Machine as the checks of this kind need it."""
    bootstrap, meta, record = machine.status.bootstrap, machine.metadata, _record(machine, kind)
    return CertificateOwner(
        name=meta.name,
        uid=meta.uid,
        deleted=meta.deletion_timestamp is not None,
        token_id="" if bootstrap is None else bootstrap.token_id,
        expires_at=record.certificate_expires_at,
        request_id=record.request_id,
        reissue=reissue_wanted(machine, kind),
        serves=frozenset(
            {machine.node_name, *(str(ip_address(a)) for a in machine.spec.addresses)}
        ),
        rivals=rivals,
        older_node=older_node,
    )


def node_of(machine: Machine) -> str:
    """Return the node that the Machine names, "" for none."""
    return machine.node_name if machine.expects_node else ""


def reissue_wanted(machine: Machine, kind: CertificateKind = AGENT) -> bool:
    """Return whether a person permits another first certificate that has not been granted yet."""
    wanted = _read_permission(machine)
    return bool(wanted) and wanted != _record(machine, kind).reissued


def reserved_for(
    request: SigningRequest, machine: Machine, kind: CertificateKind, now: datetime
) -> dict[str, Any]:
    """Return the status change before a token's request is approved; empty if it is recorded
    already.

    Until it is signed, the certificate counts with the longest life that it may have.
    """
    if _record(machine, kind).request_id == request.metadata.uid:
        return {}
    life = timedelta(seconds=request.spec.expiration_seconds or kind.longest.total_seconds())
    change = {
        "requestID": request.metadata.uid,
        "certificateExpiresAt": format_time(now + life),
        "reissued": _read_permission(machine),
    }
    return _change(change, kind)


def remembered(machine: Machine, request: SigningRequest, kind: CertificateKind) -> dict[str, Any]:
    """Return the status change after an approved request; empty if it is recorded already.

    For the recorded request the exact end is stored, or that there is no certificate. For renewals
    the latest end counts. A request older than the Machine belongs to an earlier one of the same
    name and is ignored.
    """
    if kind not in (AGENT, KUBELET) or _older(request, machine):
        return {}
    record = _record(machine, kind)
    reserved = record.request_id == request.metadata.uid
    if request.condition(FAILED) is not None:
        return _change({"requestID": "", "certificateExpiresAt": None}, kind) if reserved else {}
    ends = _end_of(request)
    if ends is None:
        return {}
    if reserved:
        return _change({"requestID": "", "certificateExpiresAt": format_time(ends)}, kind)
    known = record.certificate_expires_at
    later = known is None or ends > known
    return _change({"certificateExpiresAt": format_time(ends)}, kind) if later else {}


def _record(machine: Machine, kind: CertificateKind) -> Record:
    bootstrap = machine.status.bootstrap
    if bootstrap is None:
        return NOTHING
    if kind is AGENT:
        return bootstrap
    return (bootstrap.kubelet or NOTHING) if kind is KUBELET else NOTHING


def _change(record: dict[str, Any], kind: CertificateKind) -> dict[str, Any]:
    return {"bootstrap": record if kind is AGENT else {"kubelet": record}}


def _read_permission(machine: Machine) -> str:
    """Return the person's permission to reissue, at most 64 characters."""
    return machine.metadata.annotations.get(REISSUE, "")[:64]


def _end_of(request: SigningRequest) -> datetime | None:
    """Return when the certificate ends, None while there is none."""
    try:
        return ends_at(request.status.certificate)
    except UnreadablePem:
        return None


def _older(request: SigningRequest, machine: Machine) -> bool:
    """Return whether the request was made before the Machine."""
    requested_at, made = request.metadata.creation_timestamp, machine.metadata.creation_timestamp
    return (
        requested_at is not None and made is not None and requested_at < made.replace(microsecond=0)
    )
