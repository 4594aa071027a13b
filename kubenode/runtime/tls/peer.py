"""The identity of a TLS client: the subject of its certificate.

The handshake has verified the certificate against the authorities that the server trusts; here it
is only parsed. As in Kubernetes, the common name is the user, and organizations are the groups.
"""

from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.x509.oid import NameOID

from kubenode.runtime.tls.certificates import UnreadablePem

SCOPE_KEY = "kubenode.peer"
"""Key of the Peer in an ASGI scope, present if the client showed a certificate."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A client. `ends` is the end of its certificate, which a connection may outlive."""

    name: str
    organizations: tuple[str, ...]
    ends: datetime


def peer_of(certificate: bytes) -> Peer:
    """Parse a certificate in DER. Raises UnreadablePem if it has no common name, or several."""
    try:
        parsed = x509.load_der_x509_certificate(certificate)
        names = [_text(each) for each in parsed.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        groups = parsed.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    except ValueError as error:
        raise UnreadablePem(f"no certificate of a client: {error}") from error
    if len(names) != 1 or not names[0]:
        raise UnreadablePem(
            f"a client's certificate needs one common name, this one has {len(names)}"
        )
    return Peer(names[0], tuple(_text(each) for each in groups), parsed.not_valid_after_utc)


def _text(attribute: x509.NameAttribute[str | bytes]) -> str:
    value = attribute.value
    return value if isinstance(value, str) else value.decode(errors="replace")
