"""CertificateSigningRequest, with the fields that we read.

Source: the OpenAPI v3 document of Kubernetes 1.36, certificates.k8s.io/v1.
"""

import msgspec

from kubenode.runtime.kube.objects import KubeObjectMeta, structs
from kubenode.runtime.kube.paths import resource

BASE, PLURAL = "/apis/certificates.k8s.io/v1", "certificatesigningrequests"
APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"


class RequestCondition(msgspec.Struct, rename="camel", gc=False):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class RequestSpec(msgspec.Struct, rename="camel", gc=False):
    """`request` is PEM. The API server sets user name and groups from the authenticated
    requester.
    """

    request: bytes = b""
    signer_name: str = ""
    username: str = ""
    groups: list[str] = []
    usages: list[str] = []
    expiration_seconds: int | None = None


class RequestStatus(msgspec.Struct, rename="camel", gc=False):
    """`certificate` is PEM, empty until the signer has signed."""

    conditions: list[RequestCondition] = []
    certificate: bytes = b""


class SigningRequest(msgspec.Struct, rename="camel", gc=False):
    """A CertificateSigningRequest."""

    metadata: KubeObjectMeta
    spec: RequestSpec = msgspec.field(default_factory=RequestSpec)
    status: RequestStatus = msgspec.field(default_factory=RequestStatus)

    def condition(self, type_: str) -> RequestCondition | None:
        return next((c for c in self.status.conditions if c.type == type_), None)

    @property
    def decided(self) -> bool:
        """Whether the request is approved, denied or failed, which is final."""
        return any(c.type in (APPROVED, DENIED, FAILED) for c in self.status.conditions)


decode_request = structs(SigningRequest)


def requests() -> str:
    return resource(BASE, PLURAL)


def request(name: str, subresource: str | None = None) -> str:
    return resource(BASE, PLURAL, name=name, subresource=subresource)
