"""What is known of one certificate request when it is judged, and the words of a no."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from machine.certificates.asked import RequestedCertificate
from machine.certificates.kinds import BY_SIGNER, CertificateKind
from machine.certificates.whose import named
from machine.certificates.wire import SigningRequest


class DenialReason(StrEnum):
    """Why a request is denied; the condition's reason and a label of metrics."""

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
    """`message` says what to do."""

    reason: DenialReason
    message: str


@dataclass(frozen=True, slots=True)
class BootstrapToken:
    """A bootstrap token as its Secret has it: whose it is, and until when."""

    id: str
    machine: str
    machine_uid: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class CertificateOwner:
    """The Machine that the request is about, read live.

    token_id    of its bootstrap token, "" for none
    expires_at  end of the newest certificate of this kind that was granted, as far as is known
    request_id  UID of the request that was last granted to its token
    reissue     whether a person lets it have a first certificate once more
    serves      IP addresses, and names, that its kubelet may serve as
    rivals      other Machines that name the same node
    older_node  whether the Node of that name was there before the Machine
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
    """All that is known. `asked` None: the PEM cannot be read; `owner`, `token` None: not there."""

    request: SigningRequest
    asked: RequestedCertificate | None
    owner: CertificateOwner | None
    token: BootstrapToken | None
    now: datetime

    @property
    def kind(self) -> CertificateKind:
        return BY_SIGNER[self.request.spec.signer_name]

    @property
    def name(self) -> str:
        """Of the Machine, or of the node, that the subject names; "" for none."""
        return named(self.asked, self.kind)
