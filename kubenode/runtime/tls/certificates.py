"""Certificates of a server of ours: its own authority, and what it serves with. No I/O.

Keys are EC P-256, certificates PEM. A certificate begins a little before it is made, so that a
caller whose clock is behind takes it too.
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
"""Common name of our authorities: by it they are known again in a bundle that others may write."""
LONGEST_SKEW = timedelta(hours=1)


class UnreadablePem(ValueError):
    """Not the PEM that it should be."""


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
    """For a server that is called by `names` (host names and IP addresses).

    It ends with its authority at the latest. Raises Unreadable for an authority that is none.
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
    """The first certificate of `pem`. Raises Unreadable."""
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise UnreadablePem(f"no PEM certificate: {error}") from error


def split(bundle: bytes) -> list[bytes]:
    """The single certificates of a bundle, each in the one form that `pem` gives it.

    Raises Unreadable when a part of it is none.
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
    """Whether `authority` signed `certificate`, both PEM; what is no certificate is not."""
    try:
        read_certificate(certificate).verify_directly_issued_by(read_certificate(authority))
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def names_of(certificate: bytes) -> set[str]:
    """Host names and addresses that it is for."""
    alternative_names = read_certificate(certificate).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    dns = alternative_names.value.get_values_for_type(x509.DNSName)
    return {*dns, *map(str, alternative_names.value.get_values_for_type(x509.IPAddress))}


def is_ours(certificate: bytes) -> bool:
    """Whether it is an authority that a KubeNode program made."""
    return read_certificate(certificate).subject == _name(AUTHORITY)


def made_at(certificate: bytes) -> datetime:
    """When it was made: its beginning without the allowance for other clocks."""
    parsed = read_certificate(certificate)
    life = (parsed.not_valid_after_utc - parsed.not_valid_before_utc) * 10 / 11
    return parsed.not_valid_before_utc + _skew(life)


def due_at(certificate: bytes) -> datetime:
    """When it is to be replaced: two thirds of its life are over."""
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
    """Whether the key is the certificate's. Raises Unreadable."""
    public = read_certificate(pair.certificate).public_key()
    return public == _read_key(pair.key).public_key()
