"""What a Machine remembers of the certificates that were granted to its host. Pure."""

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
    """A Machine as the checks of this kind see it."""
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
    """The node that the Machine speaks of; "" for none."""
    return machine.node_name if machine.spec.node == "Expected" else ""


def reissue_wanted(machine: Machine, kind: CertificateKind = AGENT) -> bool:
    """Whether a person asked for a first certificate once more, and got none yet."""
    wanted = _said(machine)
    return bool(wanted) and wanted != _record(machine, kind).reissued


def reserved_for(
    request: SigningRequest, machine: Machine, kind: CertificateKind, now: datetime
) -> dict[str, Any]:
    """The change of the status before a token's request is granted; empty where that was done.

    Until it is signed the certificate counts as living as long as it may.
    """
    if _record(machine, kind).request_id == request.metadata.uid:
        return {}
    life = timedelta(seconds=request.spec.expiration_seconds or kind.longest.total_seconds())
    change = {
        "requestID": request.metadata.uid,
        "certificateExpiresAt": format_time(now + life),
        "reissued": _said(machine),
    }
    return _change(change, kind)


def remembered(machine: Machine, request: SigningRequest, kind: CertificateKind) -> dict[str, Any]:
    """What an approved request changes in the status; nothing for one that is known.

    The request that was reserved for says exactly until when, or that there will be none; of
    others, which renew, the latest end counts. The request of a Machine before this one of the same
    name is none of its.
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


def _said(machine: Machine) -> str:
    return machine.metadata.annotations.get(REISSUE, "")[:64]


def _end_of(request: SigningRequest) -> datetime | None:
    """When its certificate ends; None while there is none."""
    try:
        return ends_at(request.status.certificate)
    except UnreadablePem:
        return None


def _older(request: SigningRequest, machine: Machine) -> bool:
    asked, made = request.metadata.creation_timestamp, machine.metadata.creation_timestamp
    return asked is not None and made is not None and asked < made.replace(microsecond=0)
