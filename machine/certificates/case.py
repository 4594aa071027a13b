"""Facts about a certificate request on which the checks decide, and reasons of denials."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from machine.certificates.kinds import BY_SIGNER, CertificateKind
from machine.certificates.requester import named
from machine.certificates.requests import RequestedCertificate
from machine.certificates.wire import SigningRequest


class DenialReason(StrEnum):
    """Why a request is denied: reason of its condition and label of a metric."""

    SIGNER = "SignerNotAllowed"
    REQUESTER = "RequesterNotAllowed"
    REQUEST = "RequestUnreadable"
    SIGNATURE = "SignatureInvalid"
    KEY = "KeyNotAllowed"
    COMMON_NAME = "CommonNameNotAllowed"
    ORGANIZATION = "OrganizationNotAllowed"
    NAMES = "FurtherNames"
    USAGES = "UsagesNotAllowed"
    LIFE = "LifeTooLong"
    MACHINE = "NoSuchMachine"
    NODE = "NodeOfTwoMachines"
    ADDRESS = "AddressNotOfMachine"
    TOKEN = "TokenOfAnother"
    EXPIRED = "TokenExpired"
    LIVE = "CertificateIsLive"
    OLDER_NODE = "NodeIsOlder"
    UNKNOWN = "NoCertificateToRenew"
    TOO_MANY = "TooManyRequests"


@dataclass(frozen=True, slots=True)
class Denial:
    """A denial. `message` says what to do."""

    reason: DenialReason
    message: str


@dataclass(frozen=True, slots=True)
class BootstrapToken:
    """A bootstrap token from its Secret: its Machine and its expiry."""

    id: str
    machine: str
    machine_uid: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class CertificateOwner:
    """The Machine of a request, read live.

    token_id: ID of its bootstrap token, "" for none.
    expires_at: end of the newest certificate of this kind, None if none is known.
    request_id: UID of the request last granted to its token.
    reissue: whether a person permits another first certificate.
    serves: IP addresses and names that its kubelet may serve as.
    rivals: other Machines that name the same node.
    older_node: whether the Node of that name was created before the Machine.
    """

    name: str
    uid: str
    deleted: bool = False
    token_id: str = ""
    expires_at: datetime | None = None
    request_id: str = ""
    reissue: bool = False
    serves: frozenset[str] = frozenset()
    rivals: tuple[str, ...] = ()
    older_node: bool = False


@dataclass(frozen=True, slots=True)
class CertificateCase:
    """All facts about a request.

    requested: None if the PEM is unreadable.
    owner: None if there is no such Machine.
    token: None if there is no such token.
    """

    request: SigningRequest
    requested: RequestedCertificate | None
    owner: CertificateOwner | None
    token: BootstrapToken | None
    now: datetime

    @property
    def kind(self) -> CertificateKind:
        return BY_SIGNER[self.request.spec.signer_name]

    @property
    def name(self) -> str:
        """Name of the Machine or node in the subject, "" for none."""
        return named(self.requested, self.kind)
