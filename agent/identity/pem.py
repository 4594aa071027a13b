"""Keys, requests and certificates as PEM.

Functions that need `cryptography` import it; the agent calls them in a child (agent.identity.keys).
"""

import hashlib
import re
import warnings
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from agent.identity.dates import dates

KEY_BLOCK = re.compile(rb"-----BEGIN PRIVATE KEY-----.*?-----END PRIVATE KEY-----\n?", re.S)
AGENT_USER, AGENT_GROUP = "kubenode:agent:", "kubenode:agents"
USAGES = ("client auth", "digital signature")


class BadPem(ValueError):
    """Not a valid key or certificate. The text never contains any of it."""


@dataclass(frozen=True, slots=True)
class Validity:
    begins: datetime
    ends: datetime

    def due_at(self, spread: float) -> datetime:
        """Return the time of renewal: at two thirds of the lifetime, a twentieth earlier or later.

        spread: from 0 to 1; keeps thousands of hosts that joined together from renewing together
        """
        return self.begins + (self.ends - self.begins) * (2 / 3 + (spread - 0.5) / 10)

    @property
    def life(self) -> timedelta:
        return self.ends - self.begins


def new_key() -> bytes:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def new_request(key: bytes, agent: str) -> bytes:
    """Create a certificate request for this agent's name, signed by `key`. Raises BadPem."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    with warnings.catch_warnings():
        # Warns of a name above 64 characters, X.520's limit; the API server has none.
        warnings.simplefilter("ignore", UserWarning)
        names = [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, AGENT_GROUP),
            x509.NameAttribute(NameOID.COMMON_NAME, f"{AGENT_USER}{agent}", _validate=False),
        ]
    loaded = _load_key(key)
    assert isinstance(loaded, ec.EllipticCurvePrivateKey)
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names))
    return builder.sign(loaded, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def fingerprint(key: bytes) -> str:
    """Return twenty hex digits that identify the public half of `key`. Raises BadPem."""
    return hashlib.sha256(_public(_load_key(key))).hexdigest()[:20]


def validity(pair: bytes, agent: str) -> Validity:
    """Return the validity of the certificate in `pair`, after a check of its key and its name.

    Raises BadPem if the pair is incomplete, or not this agent's.
    """
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    try:
        certificate = x509.load_pem_x509_certificate(pair)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            parts = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    except ValueError as error:
        raise BadPem("no PEM certificate") from error
    if _public(_load_key(key_of(pair))) != _public(certificate):
        raise BadPem("the certificate is not for the key beside it")
    names = [part.value for part in parts]
    if names != [f"{AGENT_USER}{agent}"]:
        raise BadPem(f"the certificate is for {names}, not for {AGENT_USER}{agent}")
    return Validity(certificate.not_valid_before_utc, certificate.not_valid_after_utc)


def read_validity(pair: bytes) -> Validity:
    """Return the validity of the certificate in `pair`, without other checks. Raises BadPem."""
    try:
        return Validity(*dates(pair))
    except ValueError as error:
        raise BadPem(str(error)) from error


def key_of(pair: bytes) -> bytes:
    """Return the private key in the pair. Raises BadPem."""
    match = KEY_BLOCK.search(pair)
    if match is None:
        raise BadPem("no PEM private key")
    return match.group()


def spread_of(pair: bytes) -> float:
    """Return a number from 0 to 1 that is constant for one certificate."""
    return int.from_bytes(hashlib.sha256(pair).digest()[:4]) / 2**32


def utc(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _load_key(key: bytes) -> object:
    from cryptography.hazmat.primitives import serialization

    try:
        return serialization.load_pem_private_key(key, None)
    except (ValueError, TypeError) as error:
        raise BadPem("no PEM private key") from error


def _public(of: object) -> bytes:
    from cryptography.hazmat.primitives import serialization

    public = of.public_key()  # type: ignore[attr-defined]
    return bytes(
        public.public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
