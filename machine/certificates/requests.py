"""Parser of certificate requests. No I/O."""

import re
import warnings
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

from machine.names import AGENT_GROUP, AGENT_USER

BLOCK = re.compile(
    rb"\s*-----BEGIN CERTIFICATE REQUEST-----\r?\n[A-Za-z0-9+/=\r\n]+"
    rb"-----END CERTIFICATE REQUEST-----\s*"
)
LARGEST = 16 * 1024
"""Greatest size of the PEM in bytes. A regular request has less than 2,000."""
SMALLEST_RSA = 2048
"""Least size of an RSA key in bits."""


class NoRequest(ValueError):
    """The bytes are not exactly one PEM certificate request."""


@dataclass(frozen=True, slots=True)
class RequestedCertificate:
    """Content of a certificate request.

    signed: whether the signature proves possession of the key.
    key: "" if the key is acceptable, else its description.
    common_names: CNs of the subject.
    organizations: Os of the subject.
    more_names: whether the subject has other parts.
    other_names: whether it has alternative names of other types, an empty list, or unreadable ones.
    dns: DNS names among the alternative names.
    addresses: IP addresses among the alternative names.
    """

    signed: bool
    key: str
    common_names: tuple[str, ...]
    organizations: tuple[str, ...]
    more_names: bool
    other_names: bool = False
    dns: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()

    @property
    def san(self) -> bool:
        """Whether it has any alternative name."""
        return bool(self.other_names or self.dns or self.addresses)


def read(pem: bytes) -> RequestedCertificate:
    """Parse the PEM. Raises NoRequest."""
    if len(pem) > LARGEST or not BLOCK.fullmatch(pem):
        raise NoRequest("not exactly one PEM block CERTIFICATE REQUEST")
    try:
        csr = x509.load_pem_x509_csr(pem)
        with warnings.catch_warnings():
            # It warns of names above 64 characters, as X.520; the API server has no limit.
            warnings.simplefilter("ignore", UserWarning)
            subject = list(csr.subject)
        other_names, dns, addresses = _alternatives(csr)
        return RequestedCertificate(
            signed=csr.is_signature_valid,
            key=_key(csr),
            common_names=_texts(subject, NameOID.COMMON_NAME),
            organizations=_texts(subject, NameOID.ORGANIZATION_NAME),
            more_names=any(
                part.oid not in (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME) for part in subject
            ),
            other_names=other_names,
            dns=dns,
            addresses=addresses,
        )
    except Exception as error:  # any host wrote these bytes; the library's errors share no base
        raise NoRequest(f"not a certificate request: {error}") from error


def claims_an_agent(pem: bytes) -> bool:
    """Return whether the subject is that of an agent, whoever made the request."""
    try:
        requested = read(pem)
    except NoRequest:
        return False
    return AGENT_GROUP in requested.organizations or any(
        name.startswith(AGENT_USER) for name in requested.common_names
    )


def _texts(
    subject: list[x509.NameAttribute[str | bytes]], oid: x509.ObjectIdentifier
) -> tuple[str, ...]:
    return tuple(
        part.value if isinstance(part.value, str) else part.value.hex()
        for part in subject
        if part.oid == oid
    )


def _key(csr: x509.CertificateSigningRequest) -> str:
    """Return "" if the key is acceptable, else its description."""
    match csr.public_key():
        case ec.EllipticCurvePublicKey(curve=ec.SECP256R1()) | ed25519.Ed25519PublicKey():
            return ""
        case rsa.RSAPublicKey(key_size=size):
            return "" if size >= SMALLEST_RSA else f"RSA of {size} bits"
        case ec.EllipticCurvePublicKey(curve=curve):
            return f"EC of curve {curve.name}"
        case other:
            return type(other).__name__.removeprefix("_").removesuffix("PublicKey")


def _alternatives(
    csr: x509.CertificateSigningRequest,
) -> tuple[bool, tuple[str, ...], tuple[str, ...]]:
    """Return whether there are alternative names of other types, then DNS names and IP
    addresses.
    """
    try:
        names = csr.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False, (), ()
    except ValueError:  # extensions that cannot be read, or a name twice
        return True, (), ()
    dns = tuple(names.get_values_for_type(x509.DNSName))
    networks = names.get_values_for_type(x509.IPAddress)
    addresses = tuple(str(a) for a in networks if isinstance(a, IPv4Address | IPv6Address))
    known = len(dns) + len(addresses)
    return not known or known < len(list(names)), dns, addresses
