"""Whether an agent may have the certificate that it asks for: each check says why not. Pure.

The order is policy: who asks, what was sent, whom it names, what for, for how long; then whether
that Machine's agent may have one now. The first check that fails is the answer.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from machine.certificates.asked import Asked, NoRequest, claims_an_agent, read
from machine.certificates.wire import SigningRequest
from machine.names import AGENT_GROUP, AGENT_USER, TOKEN_GROUP, TOKEN_USER, agent_user

SIGNER = "kubernetes.io/kube-apiserver-client"
ANSWERED = (SIGNER, "kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving")
"""Signers whose requests we may answer, if only by a no."""
LONGEST = timedelta(days=30)
CLIENT_AUTH = "client auth"
USAGES = frozenset({CLIENT_AUTH, "digital signature", "key encipherment"})


class Reason(StrEnum):
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
    TOKEN = "TokenOfAnother"
    EXPIRED = "TokenExpired"
    LIVE = "CertificateIsLive"
    UNKNOWN = "NoCertificateToRenew"


@dataclass(frozen=True, slots=True)
class Denial:
    """`message` says what to do."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class Token:
    """A bootstrap token as its Secret has it: whose it is, and until when."""

    id: str
    machine: str
    machine_uid: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Owner:
    """The Machine that the request is about, read live.

    token_id    of its bootstrap token, "" for none
    expires_at  end of the newest certificate that its agent has been granted
    request_id  UID of the request that was last granted to its token
    reissue     whether a person lets it have a first certificate once more
    """

    name: str
    uid: str
    deleted: bool = False
    token_id: str = ""
    expires_at: datetime | None = None
    request_id: str = ""
    reissue: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """All that is known. `asked` None: the PEM cannot be read; `owner`, `token` None: not there."""

    request: SigningRequest
    asked: Asked | None
    owner: Owner | None
    token: Token | None
    now: datetime

    @property
    def machine(self) -> str:
        return machine_of(self.asked)


Check = Callable[[Case], Denial | None]


def ours(request: SigningRequest) -> bool:
    """Whether the request is ours to answer; nobody else's is touched."""
    spec = request.spec
    if spec.signer_name not in ANSWERED:
        return False
    if TOKEN_GROUP in spec.groups or spec.username.startswith(AGENT_USER):
        return True
    return spec.signer_name == SIGNER and claims_an_agent(spec.request)


def look(request: SigningRequest) -> Asked | None:
    """What it asks for; None where that cannot be read."""
    try:
        return read(request.spec.request)
    except NoRequest:
        return None


def machine_of(asked: Asked | None) -> str:
    """The Machine whose agent the subject names; "" for none."""
    if asked is None or len(asked.common_names) != 1:
        return ""
    (name,) = asked.common_names
    return name.removeprefix(AGENT_USER) if name.startswith(AGENT_USER) else ""


def token_id(request: SigningRequest) -> str:
    """The bootstrap token that asks; "" when somebody else does."""
    spec = request.spec
    if TOKEN_GROUP not in spec.groups or not spec.username.startswith(TOKEN_USER):
        return ""
    return spec.username.removeprefix(TOKEN_USER)


def judge(case: Case) -> Denial | None:
    """None: it may be granted."""
    return next((no for check in CHECKS if (no := check(case)) is not None), None)


def _signer(case: Case) -> Denial | None:
    if (signer := case.request.spec.signer_name) == SIGNER:
        return None
    return Denial(Reason.SIGNER, f"signer {signer}: an agent's certificate is signed by {SIGNER}")


def _requester(case: Case) -> Denial | None:
    spec, machine = case.request.spec, case.machine
    if token_id(case.request):
        return None
    same = machine and spec.username == agent_user(machine) and AGENT_GROUP in spec.groups
    if same:
        return None
    return Denial(
        Reason.REQUESTER,
        f"{spec.username or 'nobody'} asks: only a bootstrap token of its Machine may ask for an"
        " agent's first certificate, and only the same agent for the next",
    )


def _readable(case: Case) -> Denial | None:
    if case.asked is not None:
        return None
    return Denial(Reason.REQUEST, "spec.request is not exactly one PEM CERTIFICATE REQUEST")


def _signed(case: Case) -> Denial | None:
    if case.asked is None or case.asked.signed:
        return None
    return Denial(Reason.SIGNATURE, "the request is not signed by the key that it is about")


def _key(case: Case) -> Denial | None:
    if case.asked is None or not case.asked.key:
        return None
    return Denial(
        Reason.KEY, f"its key is {case.asked.key}: use P-256, Ed25519 or RSA of 2048 bits"
    )


def _common_name(case: Case) -> Denial | None:
    if case.machine:
        return None
    return Denial(Reason.COMMON_NAME, f"the subject's CN is not one {AGENT_USER}MACHINE")


def _organization(case: Case) -> Denial | None:
    if case.asked is None or case.asked.organizations == (AGENT_GROUP,):
        return None
    return Denial(Reason.ORGANIZATION, f"the subject's O is not {AGENT_GROUP} alone")


def _names(case: Case) -> Denial | None:
    if case.asked is None or not (case.asked.san or case.asked.more_names):
        return None
    return Denial(
        Reason.NAMES,
        "it asks for further names: an agent's subject has CN and O, and no alternative names",
    )


def _usages(case: Case) -> Denial | None:
    usages = set(case.request.spec.usages)
    if CLIENT_AUTH in usages and usages <= USAGES:
        return None
    return Denial(
        Reason.USAGES,
        f"usages {', '.join(sorted(usages)) or 'none'}: ask for {CLIENT_AUTH}, and at most for"
        f" {', '.join(sorted(USAGES - {CLIENT_AUTH}))} too",
    )


def _life(case: Case) -> Denial | None:
    seconds, most = case.request.spec.expiration_seconds, int(LONGEST.total_seconds())
    if seconds is not None and seconds <= most:
        return None
    return Denial(Reason.LIFE, f"expirationSeconds {seconds or 'not given'}: at most {most}")


def _machine(case: Case) -> Denial | None:
    if case.owner is not None and not case.owner.deleted:
        return None
    return Denial(
        Reason.MACHINE,
        f"there is no Machine {case.machine}, or it is being deleted: import the host first",
    )


def _token(case: Case) -> Denial | None:
    """A token is bound to the UID of one Machine, and is that Machine's newest."""
    asking, token, owner = token_id(case.request), case.token, case.owner
    if not asking or owner is None:
        return None
    bound = (
        token is not None
        and (token.machine, token.machine_uid) == (owner.name, owner.uid)
        and token.id == owner.token_id == asking
    )
    if bound:
        return None
    return Denial(
        Reason.TOKEN,
        f"bootstrap token {asking} is not the token of this Machine: use the one that"
        f" `kubenode machine token {owner.name}` prints",
    )


def _token_is_live(case: Case) -> Denial | None:
    if case.token is None or case.token.expires_at > case.now:
        return None
    return Denial(
        Reason.EXPIRED,
        f"bootstrap token {case.token.id} has expired: use the one that"
        f" `kubenode machine token {case.token.machine}` prints",
    )


def _first(case: Case) -> Denial | None:
    """A token gives one certificate; another one needs a person's word."""
    owner = case.owner
    if not token_id(case.request) or owner is None or owner.reissue:
        return None
    if owner.request_id and owner.request_id == case.request.metadata.uid:
        return None
    if owner.expires_at is None or owner.expires_at <= case.now:
        return None
    return Denial(
        Reason.LIVE,
        "its agent has a certificate that is live: if that is lost, say"
        f" `kubenode machine reissue {owner.name}`",
    )


def _renewal(case: Case) -> Denial | None:
    """Who renews shows a certificate that was granted for this Machine, not for one before it."""
    owner = case.owner
    if token_id(case.request) or owner is None:
        return None
    if owner.expires_at is not None and _asked_at(case) <= owner.expires_at:
        return None
    return Denial(
        Reason.UNKNOWN,
        "this Machine's agent was granted no certificate that is live: say"
        f" `kubenode machine reissue {owner.name}` and start it with a bootstrap token",
    )


def _asked_at(case: Case) -> datetime:
    return case.request.metadata.creation_timestamp or case.now


CHECKS: tuple[Check, ...] = (
    _signer,
    _requester,
    _readable,
    _signed,
    _key,
    _common_name,
    _organization,
    _names,
    _usages,
    _life,
    _machine,
    _token,
    _token_is_live,
    _first,
    _renewal,
)
