"""Requests a certificate from the API server and waits for it. A denial has a reason."""

import hashlib
from base64 import b64encode
from typing import Any

import msgspec

from agent.identity.pem import USAGES
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import AlreadyExists, NotFound
from kubenode.runtime.kube.paths import resource

BASE, PLURAL = "/apis/certificates.k8s.io/v1", "certificatesigningrequests"
SIGNER = "kubernetes.io/kube-apiserver-client"
WHO_AM_I = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
FIRST_POLL_SECONDS, LONGEST_POLL_SECONDS = 0.3, 5.0
"""Seconds between two polls; the interval grows."""
PATIENCE = 600.0
"""Seconds to wait for a certificate; a later attempt finds the same request."""
LONGEST_NAME = 200


class CertificateDenied(Exception):
    """The request was denied or failed. The text holds the reason."""


class CertificateUnanswered(Exception):
    """The request was not approved and signed in time."""


class _SigningCondition(msgspec.Struct):
    type: str = ""
    reason: str | None = None
    message: str | None = None


class _SigningStatus(msgspec.Struct):
    conditions: list[_SigningCondition] | None = None
    certificate: bytes | None = None


class _SigningRequest(msgspec.Struct):
    status: _SigningStatus | None = None


class _SelfUser(msgspec.Struct):
    username: str = ""


class _ReviewStatus(msgspec.Struct, rename="camel"):
    user_info: _SelfUser = msgspec.field(default_factory=_SelfUser)


class _SelfReview(msgspec.Struct):
    status: _ReviewStatus = msgspec.field(default_factory=_ReviewStatus)


_decode = msgspec.json.Decoder(_SigningRequest).decode
_decode_review = msgspec.json.Decoder(_SelfReview).decode


def request_name(agent: str, fingerprint: str, asker: str) -> str:
    """Return the request's name: the same for one key and kind of requester, to be found after a
    restart.

    asker: mark of the credentials that are used
    """
    cut = agent[:LONGEST_NAME].rstrip(".-")
    return f"kubenode-agent-{cut}-{asker}-{fingerprint}"


async def certificate(
    kube: Kube, clock: Clock, name: str, request: bytes, seconds: int, patience: float = PATIENCE
) -> bytes:
    """Request the certificate and return it as PEM.

    name: of the request
    request: certificate signing request, PEM
    seconds: requested lifetime
    patience: seconds to wait

    Raises CertificateDenied, CertificateUnanswered, KubeError.
    """
    deadline, wait = clock.monotonic() + patience, FIRST_POLL_SECONDS
    await _ask(kube, name, request, seconds)
    while clock.monotonic() < deadline:
        try:
            signing_request = await kube.get(resource(BASE, PLURAL, name=name), _decode)
        except NotFound:
            await _ask(kube, name, request, seconds)
        else:
            if got := _answer(signing_request):
                return got
        await clock.sleep(wait)
        wait = min(LONGEST_POLL_SECONDS, wait * 1.5)
    raise CertificateUnanswered(
        f"certificate request {name} was not approved and signed in {patience:.0f} s"
    )


async def works_as(kube: Kube) -> str:
    """Return the user name that the API server recognises. Raises KubeError."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    return (await kube.create(WHO_AM_I, body, _decode_review)).status.user_info.username


def token_mark(token: bytes) -> str:
    """Return a mark of the token for a request's name. It does not reveal the token."""
    return f"t{hashlib.sha256(token).hexdigest()[:8]}"


async def _ask(kube: Kube, name: str, request: bytes, seconds: int) -> None:
    body: dict[str, Any] = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            "request": b64encode(request).decode(),
            "signerName": SIGNER,
            "usages": list(USAGES),
            "expirationSeconds": seconds,
        },
    }
    try:
        await kube.create(resource(BASE, PLURAL), body)
    except AlreadyExists:
        return  # requested before a restart, or the answer was lost


def _answer(signing_request: _SigningRequest) -> bytes:
    """Return the certificate; b"" while there is none. Raises CertificateDenied."""
    status = signing_request.status or _SigningStatus()
    for condition in status.conditions or ():
        if condition.type in ("Denied", "Failed"):
            raise CertificateDenied(
                f"{condition.reason or condition.type}: {condition.message or ''}"
            )
    return status.certificate or b""
