"""Access to the embedded server: its certificate and bearer tokens."""

import base64
import hmac
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from simulation.apiserver.errors import ApiError


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM files.

    cert_file, key_file: the certificate and the key of the server.
    ca_file: the authority that clients trust.
    """

    cert_file: Path
    key_file: Path
    ca_file: Path

    def context(self) -> ssl.SSLContext:
        """Return a TLS context.

        Raises OSError (ssl.SSLError) if the files are not a certificate and its key.
        """
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.cert_file, self.key_file)
        return context


def check_token(authorization: str, tokens: Sequence[str]) -> None:
    """Raise ApiError 401 unless the header carries one of the tokens."""
    scheme, _, given = authorization.partition(" ")
    known = [hmac.compare_digest(given.strip().encode(), token.encode()) for token in tokens]
    if scheme.lower() != "bearer" or not any(known):
        raise ApiError(401, "Unauthorized", "Unauthorized")


def kubeconfig(url: str, tls: Tls | None, token: str) -> str:
    """Return a kubeconfig as YAML (JSON is YAML too).

    token: "" for none.
    """
    cluster = {"server": url}
    if tls is not None:
        authority = base64.b64encode(tls.ca_file.read_bytes()).decode()
        cluster["certificate-authority-data"] = authority
    name = "embedded"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "users": [{"name": name, "user": {"token": token} if token else {}}],
    }
    return msgspec.json.format(msgspec.json.encode(config)).decode() + "\n"
