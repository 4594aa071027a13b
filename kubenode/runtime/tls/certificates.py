"""Certificates of our servers: their own authority, and the serving certificate. No I/O.

Keys are EC P-256, certificates PEM. The validity begins a little before the certificate is made, so
that clients with a slow clock accept it too.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY = "kubenode webhook authority"
"""Common name of our authorities, which identifies them in a bundle that others may write too."""
LONGEST_SKEW = timedelta(hours=1)


class UnreadablePem(ValueError):
    """Malformed PEM, or not the expected kind of it."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes


def new_authority(life: timedelta, now: datetime) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(AUTHORITY)
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    made = (
        _builder(name, name, key.public_key(), now - _skew(life), now + life)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _pair(made, key)


def new_serving(authority: Pair, names: Sequence[str], life: timedelta, now: datetime) -> Pair:
    """Create a certificate for a server with `names` (host names and IP addresses).

    It ends no later than its authority. Raises UnreadablePem for a malformed authority.
    """
    issuer, signing = read_certificate(authority.certificate), _read_key(authority.key)
    key = ec.generate_private_key(ec.SECP256R1())
    ends = min(now + life, issuer.not_valid_after_utc)
    made = (
        _builder(_name(names[0]), issuer.subject, key.public_key(), now - _skew(life), ends)
        .add_extension(x509.SubjectAlternativeName([_general(n) for n in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()),
            critical=False,
        )
        .sign(signing, hashes.SHA256())
    )
    return _pair(made, key)


def read_certificate(pem: bytes) -> x509.Certificate:
    """Parse the first certificate of `pem`. Raises UnreadablePem."""
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise UnreadablePem(f"no PEM certificate: {error}") from error


def split(bundle: bytes) -> list[bytes]:
    """Return the single certificates of a bundle, each in the form of `pem`.

    Raises UnreadablePem if a part of it is no certificate.
    """
    if not bundle.strip():
        return []
    try:
        return [pem(certificate) for certificate in x509.load_pem_x509_certificates(bundle)]
    except ValueError as error:
        raise UnreadablePem(f"no bundle of PEM certificates: {error}") from error


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def signed_by(certificate: bytes, authority: bytes) -> bool:
    """Return whether `authority` signed `certificate`, both PEM; False for malformed ones."""
    try:
        read_certificate(certificate).verify_directly_issued_by(read_certificate(authority))
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def names_of(certificate: bytes) -> set[str]:
    """Return the host names and addresses of a certificate."""
    alternative_names = read_certificate(certificate).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    dns = alternative_names.value.get_values_for_type(x509.DNSName)
    return {*dns, *map(str, alternative_names.value.get_values_for_type(x509.IPAddress))}


def is_ours(certificate: bytes) -> bool:
    """Return whether it is an authority that a KubeNode program made."""
    return read_certificate(certificate).subject == _name(AUTHORITY)


def made_at(certificate: bytes) -> datetime:
    """Return when it was made: the start of its validity without the allowance for other clocks."""
    parsed = read_certificate(certificate)
    life = (parsed.not_valid_after_utc - parsed.not_valid_before_utc) * 10 / 11
    return parsed.not_valid_before_utc + _skew(life)


def due_at(certificate: bytes) -> datetime:
    """Return when to replace it: after two thirds of its life."""
    parsed = read_certificate(certificate)
    begin, end = parsed.not_valid_before_utc, parsed.not_valid_after_utc
    return begin + (end - begin) * 2 / 3


def ends_at(certificate: bytes) -> datetime:
    return read_certificate(certificate).not_valid_after_utc


def _skew(life: timedelta) -> timedelta:
    return min(LONGEST_SKEW, life / 10)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    begin: datetime,
    end: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common[:64])])


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return Pair(pem(certificate), text)


def _read_key(text: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(text, None)
    except (ValueError, TypeError) as error:
        raise UnreadablePem(f"no PEM private key: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise UnreadablePem("no private key of an elliptic curve")
    return key


def fits(pair: Pair) -> bool:
    """Return whether the key belongs to the certificate. Raises UnreadablePem."""
    public = read_certificate(pair.certificate).public_key()
    return public == _read_key(pair.key).public_key()
