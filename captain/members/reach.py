"""Translates errors of a client into the reason why a member is unreachable. Pure."""

import ssl

import aiohttp

from kubenode.api.v1alpha1.membercluster import MemberReason
from kubenode.runtime.kube.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NotFound,
    ServerUnreachable,
    Unauthorized,
)

ANSWERS = (BadRequest, Conflict, Gone, Invalid, NotFound)
"""Errors that are answers about an object: the member is reachable."""
ERROR_LENGTH = 500
"""Characters of an error. A member can answer with any text."""
REMEDIES = {
    MemberReason.TIMEOUT: "check the network between Captain and the member",
    MemberReason.REFUSED: "check `server` of the kubeconfig, and that the API server runs",
    MemberReason.UNTRUSTED_CERTIFICATE: "renew `certificate-authority-data` of the kubeconfig",
    MemberReason.UNAUTHORIZED: "renew the credentials with `kubenode member renew`, or with"
    " `kubenode member import`",
    MemberReason.FORBIDDEN: "restore the rights with `kubenode member import`",
    MemberReason.SERVER_ERROR: "check the API server of the member",
}


def find_reason(error: KubeError) -> MemberReason:
    """Return the reason of an error that is no answer about an object."""
    match error:
        case Unauthorized():
            return MemberReason.UNAUTHORIZED
        case Forbidden():
            return MemberReason.FORBIDDEN
        case ServerUnreachable():
            return _find_network_reason(error.__cause__)
        case _:
            return MemberReason.SERVER_ERROR


def _find_network_reason(cause: BaseException | None) -> MemberReason:
    match cause:
        case aiohttp.ClientConnectorCertificateError() | ssl.CertificateError():
            return MemberReason.UNTRUSTED_CERTIFICATE
        case TimeoutError():
            return MemberReason.TIMEOUT
        case aiohttp.ClientPayloadError():
            return MemberReason.SERVER_ERROR
        case _:
            return MemberReason.REFUSED


def explain(error: KubeError) -> str:
    """Return the message for people: the error, shortened, and its remedy."""
    return f"{str(error)[:ERROR_LENGTH]}; {REMEDIES[find_reason(error)]}"
