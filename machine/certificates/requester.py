"""Determine to whom a certificate request belongs: an agent, a node, or nobody of ours. Pure."""

from collections.abc import Callable

from machine.certificates.kinds import AGENT, BY_SIGNER, CertificateKind
from machine.certificates.requests import NoRequest, RequestedCertificate, claims_an_agent, read
from machine.certificates.wire import SigningRequest
from machine.names import AGENT_USER, NODE_USER, TOKEN_GROUP, TOKEN_USER


def ours(request: SigningRequest, speaks: Callable[[str], bool]) -> bool:
    """Return whether we answer the request. Other requests are not touched.

    speaks: returns whether a Machine names the node.
    """
    spec = request.spec
    kind = BY_SIGNER.get(spec.signer_name)
    if kind is None:
        return False
    if TOKEN_GROUP in spec.groups or spec.username.startswith(AGENT_USER):
        return True
    if kind is AGENT:
        return claims_an_agent(spec.request)
    return any(speaks(node) for node in nodes_of(request))


def parse_request(request: SigningRequest) -> RequestedCertificate | None:
    """Return the content of the request, None if it is unreadable."""
    try:
        return read(request.spec.request)
    except NoRequest:
        return None


def nodes_of(request: SigningRequest) -> frozenset[str]:
    """Return the nodes that make the request or that it names."""
    if BY_SIGNER.get(request.spec.signer_name) in (None, AGENT):
        return frozenset()
    requested = parse_request(request)
    users = (request.spec.username, *(requested.common_names if requested is not None else ()))
    return frozenset(u.removeprefix(NODE_USER) for u in users if u.startswith(NODE_USER))


def machine_of(requested: RequestedCertificate | None) -> str:
    """Return the Machine whose agent the subject names, "" for none."""
    return named(requested, AGENT)


def named(requested: RequestedCertificate | None, kind: CertificateKind) -> str:
    """Return the Machine or node that the subject names, "" for none."""
    if requested is None or len(requested.common_names) != 1:
        return ""
    (name,) = requested.common_names
    return name.removeprefix(kind.user) if name.startswith(kind.user) else ""


def token_id(request: SigningRequest) -> str:
    """Return the ID of the bootstrap token that made the request, "" if another user did."""
    spec = request.spec
    if TOKEN_GROUP not in spec.groups or not spec.username.startswith(TOKEN_USER):
        return ""
    return spec.username.removeprefix(TOKEN_USER)
