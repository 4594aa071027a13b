"""Checks of certificate requests. Each returns why the request is denied. Pure.

The order is policy: requester, content, subject, usage, life; then whether the Machine may have a
certificate now. The first check that fails decides.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from ipaddress import ip_address
from itertools import islice

from kubenode.instants import FIRST
from machine.certificates.case import CertificateCase, Denial, DenialReason
from machine.certificates.kinds import AGENT, FURTHER_USAGES, SERVING
from machine.certificates.requester import machine_of, token_id
from machine.certificates.wire import SigningRequest

Check = Callable[[CertificateCase], Denial | None]
MOST_REQUESTS, REQUESTS_WINDOW = 16, timedelta(minutes=10)
"""Greatest number of requests of one user within REQUESTS_WINDOW.

An agent with the shortest certificate life renews twice in that time.
"""


def limit_requests(request: SigningRequest, same_user: Iterable[SigningRequest]) -> Denial | None:
    """Deny a request that has too many earlier ones of the same user.

    Requests count in the order of their creation, so the result does not depend on the order in
    which they are reconciled.

    same_user: all requests of its user.
    """
    own = _order(request)
    begin = own[0] - REQUESTS_WINDOW
    earlier = (peer for peer in same_user if begin < _order(peer)[0] and _order(peer) < own)
    if len(list(islice(earlier, MOST_REQUESTS))) < MOST_REQUESTS:
        return None
    minutes = REQUESTS_WINDOW.total_seconds() / 60
    return Denial(
        DenialReason.TOO_MANY,
        f"{request.spec.username} made {MOST_REQUESTS} requests within {minutes:.0f} minutes:"
        " wait, and find out what makes them",
    )


def _order(request: SigningRequest) -> tuple[datetime, str]:
    return request.metadata.creation_timestamp or FIRST, request.metadata.name


def judge(case: CertificateCase) -> Denial | None:
    """Return the first denial, None if the request may be approved."""
    return next((no for check in CHECKS if (no := check(case)) is not None), None)


def _signer(case: CertificateCase) -> Denial | None:
    """Deny a request with an agent's subject for another signer."""
    if case.kind is AGENT or not machine_of(case.requested):
        return None
    signer = case.request.spec.signer_name
    return Denial(
        DenialReason.SIGNER, f"signer {signer}: an agent's certificate is signed by {AGENT.signer}"
    )


def _requester(case: CertificateCase) -> Denial | None:
    """Deny a requester that is neither a bootstrap token nor the subject itself."""
    spec, kind = case.request.spec, case.kind
    if kind.by_token and token_id(case.request):
        return None
    same = case.name and spec.username == kind.user + case.name and kind.group in spec.groups
    if same:
        return None
    first = "a bootstrap token of its Machine asks for the first certificate, and "
    return Denial(
        DenialReason.REQUESTER,
        f"{spec.username or 'nobody'} asks for {kind.whom}: {first if kind.by_token else ''}"
        f"{kind.user}NAME, in group {kind.group}, for its own and no other",
    )


def _readable(case: CertificateCase) -> Denial | None:
    if case.requested is not None:
        return None
    return Denial(DenialReason.REQUEST, "spec.request is not exactly one PEM CERTIFICATE REQUEST")


def _signed(case: CertificateCase) -> Denial | None:
    if case.requested is None or case.requested.signed:
        return None
    return Denial(DenialReason.SIGNATURE, "the request is not signed by the key that it is about")


def _key(case: CertificateCase) -> Denial | None:
    if case.requested is None or not case.requested.key:
        return None
    return Denial(
        DenialReason.KEY, f"its key is {case.requested.key}: use P-256, Ed25519 or RSA of 2048 bits"
    )


def _common_name(case: CertificateCase) -> Denial | None:
    if case.name:
        return None
    return Denial(DenialReason.COMMON_NAME, f"the subject's CN is not one {case.kind.user}NAME")


def _organization(case: CertificateCase) -> Denial | None:
    if case.requested is None or case.requested.organizations == (case.kind.group,):
        return None
    return Denial(DenialReason.ORGANIZATION, f"the subject's O is not {case.kind.group} alone")


def _names(case: CertificateCase) -> Denial | None:
    """Deny further parts of the subject and unsuitable alternative names."""
    requested = case.requested
    if requested is None:
        return None
    serves = case.kind is SERVING
    if not requested.more_names and not (requested.other_names if serves else requested.san):
        return None
    most = "only DNS names and IP addresses" if serves else "no alternative names"
    return Denial(
        DenialReason.NAMES,
        f"it asks for further names: the subject of {case.kind.whom} has CN and O, and {most}",
    )


def _usages(case: CertificateCase) -> Denial | None:
    usages, wanted = set(case.request.spec.usages), case.kind.usage
    if wanted in usages and usages <= {wanted, *FURTHER_USAGES}:
        return None
    return Denial(
        DenialReason.USAGES,
        f"usages {', '.join(sorted(usages)) or 'none'}: ask for {wanted}, and at most for"
        f" {', '.join(sorted(FURTHER_USAGES))} too",
    )


def _life(case: CertificateCase) -> Denial | None:
    """Deny a life that is longer than the kind allows, or not given where it must be."""
    seconds, most = case.request.spec.expiration_seconds, int(case.kind.longest.total_seconds())
    if case.kind.open_end if seconds is None else seconds <= most:
        return None
    return Denial(DenialReason.LIFE, f"expirationSeconds {seconds or 'not given'}: at most {most}")


def _machine(case: CertificateCase) -> Denial | None:
    if case.owner is not None and not case.owner.deleted:
        return None
    which = f"Machine {case.name}" if case.kind is AGENT else f"Machine of node {case.name}"
    return Denial(
        DenialReason.MACHINE, f"there is no {which}, or it is being deleted: import the host first"
    )


def _deny_rivals(case: CertificateCase) -> Denial | None:
    """Deny a node that several Machines name."""
    owner = case.owner
    if owner is None or not owner.rivals:
        return None
    names = ", ".join(sorted((owner.name, *owner.rivals)))
    return Denial(
        DenialReason.NODE,
        f"Machines {names} all have node {case.name}: set spec.nodeName of all but one",
    )


def _addresses(case: CertificateCase) -> Denial | None:
    """Deny names that the Machine's spec lacks. The Node's status does not count, as the node
    writes it.
    """
    if case.kind is not SERVING or case.requested is None or case.owner is None:
        return None
    wanted = (*case.requested.dns, *(str(ip_address(a)) for a in case.requested.addresses))
    strange = [name for name in wanted if name not in case.owner.serves]
    if wanted and not strange:
        return None
    what = f"{', '.join(strange)[:256]} is not of" if strange else "it serves as nothing: name"
    return Denial(
        DenialReason.ADDRESS,
        f"{what} Machine {case.owner.name}: its kubelet serves as spec.nodeName and as"
        " spec.addresses, and as nothing else",
    )


def _token(case: CertificateCase) -> Denial | None:
    """Deny a token that is not the newest one of this Machine. A token is bound to the Machine's
    UID.
    """
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
        DenialReason.TOKEN,
        f"bootstrap token {asking} is not the token of this Machine: use the one that"
        f" `kubenode machine token {owner.name}` prints",
    )


def _token_is_live(case: CertificateCase) -> Denial | None:
    if case.token is None or case.token.expires_at > case.now:
        return None
    return Denial(
        DenialReason.EXPIRED,
        f"bootstrap token {case.token.id} has expired: use the one that"
        f" `kubenode machine token {case.token.machine}` prints",
    )


def _first(case: CertificateCase) -> Denial | None:
    """Deny a second certificate for one token while the first is valid, unless a person
    permits it.
    """
    owner = case.owner
    if not token_id(case.request) or owner is None or owner.reissue:
        return None
    if owner.request_id and owner.request_id == case.request.metadata.uid:
        return None
    if owner.expires_at is None or owner.expires_at <= case.now:
        return None
    return Denial(
        DenialReason.LIVE,
        f"{case.kind.whom} has a certificate that is live: if that is lost, say"
        f" `kubenode machine reissue {owner.name}`",
    )


def _older_node(case: CertificateCase) -> Denial | None:
    """Deny the identity of a Node that existed before its Machine, unless a person permits it.

    Otherwise whoever may create a Machine and read its token could impersonate an existing node.
    """
    owner = case.owner
    if not token_id(case.request) or owner is None or not owner.older_node:
        return None
    if owner.reissue or owner.request_id:
        return None
    return Denial(
        DenialReason.OLDER_NODE,
        f"Node {case.name} was there before Machine {owner.name}, and its kubelet has credentials:"
        f" delete the Node, or say `kubenode machine reissue {owner.name}`",
    )


def _renewal(case: CertificateCase) -> Denial | None:
    """Deny a renewal by an agent without a valid certificate that was granted for this Machine.

    A certificate of an earlier Machine with the same name does not count. A kubelet may have one
    from before its Machine, so this check is for agents only.
    """
    owner = case.owner
    if case.kind is not AGENT or token_id(case.request) or owner is None:
        return None
    if owner.expires_at is not None and _get_request_time(case) <= owner.expires_at:
        return None
    return Denial(
        DenialReason.UNKNOWN,
        "this Machine's agent was granted no certificate that is live: say"
        f" `kubenode machine reissue {owner.name}` and start it with a bootstrap token",
    )


def _get_request_time(case: CertificateCase) -> datetime:
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
    _deny_rivals,
    _addresses,
    _token,
    _token_is_live,
    _first,
    _older_node,
    _renewal,
)
