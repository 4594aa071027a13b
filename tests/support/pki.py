"""A throw-away certificate authority for test servers and their clients."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubenode.runtime.clock import SystemClock

LIFETIME = timedelta(days=2)


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate and its key, as PEM files."""

    cert_file: Path
    key_file: Path


def _subject(cn: str, orgs: Sequence[str]) -> x509.Name:
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, org) for org in orgs]
    return x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, cn)])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def write_key(key: ec.EllipticCurvePrivateKey, path: Path) -> None:
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.touch(mode=0o600)
    path.write_bytes(pem)


class Authority:
    """Signs certificates with EC P-256 keys; `folder` receives one .crt and .key pair for each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _subject("kubenode-test-ca", [])
        certificate = self._builder(self._name, self._key.public_key()).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        signed = certificate.sign(self._key, hashes.SHA256())
        self.cert_file = folder / "ca.crt"
        self.key_file = folder / "ca.key"
        self.cert_file.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        write_key(self._key, self.key_file)

    def _builder(
        self, subject: x509.Name, public: ec.EllipticCurvePublicKey, life: timedelta = LIFETIME
    ) -> x509.CertificateBuilder:
        now = SystemClock().now()
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + life)
        )

    def issue(
        self,
        name: str,
        cn: str,
        orgs: Sequence[str] = (),
        sans: Sequence[str] = (),
        life: timedelta = LIFETIME,
    ) -> Identity:
        """A certificate in files called `name`: for a server if `sans` are given, else a client.

        `cn` is the user and `orgs` are the groups that kube-apiserver sees. A `life` below 0 is
        over.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        usage = ExtendedKeyUsageOID.SERVER_AUTH if sans else ExtendedKeyUsageOID.CLIENT_AUTH
        certificate = self._builder(_subject(cn, orgs), key.public_key(), life).add_extension(
            x509.ExtendedKeyUsage([usage]), critical=False
        )
        if sans:
            names = x509.SubjectAlternativeName([_general_name(san) for san in sans])
            certificate = certificate.add_extension(names, critical=False)
        made = Identity(self.folder / f"{name}.crt", self.folder / f"{name}.key")
        signed = certificate.sign(self._key, hashes.SHA256())
        made.cert_file.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        write_key(key, made.key_file)
        return made
