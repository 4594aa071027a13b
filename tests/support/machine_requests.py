"""Certificate requests as hosts make them, honest and not."""

from base64 import b64encode
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

from machine.names import AGENT_GROUP

SIGNER = "kubernetes.io/kube-apiserver-client"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey


def a_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def a_request(
    cn: str,
    organizations: Sequence[str] = (AGENT_GROUP,),
    key: Key | None = None,
    san: str | Sequence[str] = (),
    unit: str = "",
) -> bytes:
    """PEM of a request for this subject; `san` are IP addresses, e-mail addresses or DNS names."""
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, o) for o in organizations]
    names += [x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit)] if unit else []
    names += [x509.NameAttribute(NameOID.COMMON_NAME, cn)] if cn else []
    made = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names))
    if san:
        names_too = [_alternative(name) for name in ([san] if isinstance(san, str) else san)]
        made = made.add_extension(x509.SubjectAlternativeName(names_too), critical=False)
    used = key or a_key()
    hashed = None if isinstance(used, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return made.sign(used, hashed).public_bytes(serialization.Encoding.PEM)


def _alternative(name: str) -> x509.GeneralName:
    if "@" in name:
        return x509.RFC822Name(name)
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def signed_by_another(cn: str) -> bytes:
    """PEM of an honest request whose signature is not its key's."""
    honest = x509.load_pem_x509_csr(a_request(cn))
    raw = bytearray(honest.public_bytes(serialization.Encoding.DER))
    raw[-1] ^= 1
    return as_pem(bytes(raw))


def as_pem(der: bytes) -> bytes:
    """PEM of a request whose DER nobody has checked."""
    text = b64encode(der).decode()
    lines = [text[n : n + 64] for n in range(0, len(text), 64)]
    body = "\n".join(lines)
    begin, end = "-----BEGIN CERTIFICATE REQUEST-----", "-----END CERTIFICATE REQUEST-----"
    return f"{begin}\n{body}\n{end}\n".encode()


def as_object(name: str, pem: bytes, **spec: Any) -> dict[str, Any]:
    """A CertificateSigningRequest; `spec` changes what an honest agent sends, None takes it out."""
    honest = {
        "request": b64encode(pem).decode(),
        "signerName": SIGNER,
        "usages": ["client auth", "digital signature"],
        "expirationSeconds": 600,
    }
    given = {k: v for k, v in {**honest, **spec}.items() if v is not None}
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": given,
    }
