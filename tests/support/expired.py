"""Certificates of agents with their keys, which no authority signed."""

from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from machine.names import AGENT_GROUP, agent_user


def expired_pair(machine: str, now: datetime, ago: timedelta = timedelta(hours=1)) -> bytes:
    """PEM of key and certificate, as the agent keeps them; it ended `ago`."""
    return pair_of(machine, now - ago - timedelta(days=30), now - ago)


def pair_of(machine: str, begins: datetime, ends: datetime) -> bytes:
    """Likewise, signed by its own key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, AGENT_GROUP),
            x509.NameAttribute(NameOID.COMMON_NAME, agent_user(machine)),
        ]
    )
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return private + made.public_bytes(serialization.Encoding.PEM)
