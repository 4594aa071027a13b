"""Reads the kubeconfig of a member. Pure.

The author of the Secret is not trusted: a kubeconfig can name programs that kubectl would run and
files that it would read, here on the host of Captain. So only embedded credentials are accepted,
and every other field is refused by name rather than ignored.
"""

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import yaml  # type: ignore[import-untyped]
import yarl
from cryptography import x509

from kubenode.instants import bounded

MAX_BYTES = 64 * 1024
"""Size of a kubeconfig with certificates is about 6 KiB."""

_TOP = frozenset(
    {"apiVersion", "kind", "current-context", "clusters", "contexts", "users", "preferences"}
)
_CLUSTER = frozenset({"server", "certificate-authority-data", "tls-server-name", "extensions"})
_CONTEXT = frozenset({"cluster", "user", "namespace", "extensions"})
_USER = frozenset({"token", "client-certificate-data", "client-key-data", "extensions"})
_EMBED = "embed the content with `kubectl config view --flatten --minify --raw`"
_REMEDIES = {
    "exec": "Captain runs no program of a kubeconfig; use a token or a client certificate,"
    " as `kubenode member import` creates",
    "auth-provider": "Captain runs no plugin; use a token or a client certificate,"
    " as `kubenode member import` creates",
    "certificate-authority": _EMBED,
    "client-certificate": _EMBED,
    "client-key": _EMBED,
    "tokenFile": "Captain reads no file; write the token into `token`",
    "insecure-skip-tls-verify": "anybody in between could take the credentials; remove it and set"
    " `certificate-authority-data`",
    "username": "API servers accept no passwords; use a token",
    "password": "API servers accept no passwords; use a token",
    "proxy-url": "Captain uses the proxy of its own environment, HTTPS_PROXY; remove it",
}


class KubeconfigProblem(Exception):
    """A kubeconfig that Captain does not use: the field, what is wrong, and what to do.

    It never holds a value of the kubeconfig, which may be a secret.
    """

    def __init__(self, field: str, problem: str, remedy: str) -> None:
        super().__init__(f"{field}: {problem}; {remedy}")
        self.field = field


@dataclass(frozen=True, slots=True)
class MemberCredentials:
    """Address and credentials of a member's API server. "" means that there is none."""

    server: str
    authority: str = ""
    """PEM of the certificate authority. "" for those of the system."""
    server_name: str = ""
    token: str = field(default="", repr=False)
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)


def parse_kubeconfig(raw: bytes) -> MemberCredentials:
    """Return the credentials of the current context. Raises KubeconfigProblem."""
    config = _load(raw)
    _refuse_unknown(config, _TOP, "")
    current = _text(config, "current-context", "")
    where, context = _entry(config, "contexts", "context", current, "current-context")
    _refuse_unknown(context, _CONTEXT, where)
    cluster_at, cluster = _entry(
        config, "clusters", "cluster", _text(context, "cluster", where), f"{where}.cluster"
    )
    user_at, user = _entry(config, "users", "user", _text(context, "user", where), f"{where}.user")
    _refuse_unknown(cluster, _CLUSTER, cluster_at)
    _refuse_unknown(user, _USER, user_at)
    return MemberCredentials(
        server=_server(cluster, cluster_at),
        authority=_pem(cluster, "certificate-authority-data", cluster_at).decode("ascii"),
        server_name=_text(cluster, "tls-server-name", cluster_at, needed=False),
        **_identity(user, user_at),
    )


def find_expiry(credentials: MemberCredentials) -> datetime | None:
    """Return when the token or certificate expires, None if it does not say."""
    try:
        if credentials.certificate:
            certificate = x509.load_pem_x509_certificate(credentials.certificate)
            return bounded(certificate.not_valid_after_utc)
        payload = credentials.token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return bounded(datetime.fromtimestamp(int(claims["exp"]), UTC))
    except (ValueError, LookupError, TypeError, OverflowError, OSError, RecursionError):
        return None


def _load(raw: bytes) -> Mapping[str, Any]:
    if len(raw) > MAX_BYTES:
        raise KubeconfigProblem(
            "kubeconfig",
            f"has {len(raw)} bytes, more than {MAX_BYTES}",
            "keep one context with `kubectl config view --flatten --minify --raw`",
        )
    try:
        config = yaml.load(raw, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError):
        raise KubeconfigProblem(
            "kubeconfig", "is no YAML", "store the file as it is under the key `kubeconfig`"
        ) from None
    if not isinstance(config, dict):
        raise KubeconfigProblem(
            "kubeconfig", "is no map", "store the file as it is under the key `kubeconfig`"
        )
    return config


def _refuse_unknown(values: Mapping[Any, Any], known: frozenset[str], where: str) -> None:
    for name in values:
        if name not in known:
            text = _printable(name)
            at = f"{where}.{text}" if where else text
            remedy = _REMEDIES.get(text, "remove it")
            raise KubeconfigProblem(at, "is not accepted", remedy)


def _entry(
    config: Mapping[str, Any], plural: str, kind: str, name: str, named_by: str
) -> tuple[str, Mapping[str, Any]]:
    """Return the path and content of the one entry of this name."""
    entries = [entry for entry in _entries(config, plural) if entry.get("name") == name]
    if len(entries) != 1:
        problem = f"names an entry of {plural} that exists {len(entries)} times"
        raise KubeconfigProblem(named_by, problem, f"write exactly one entry of {plural} for it")
    where = f"{plural}[{_printable(name)}].{kind}"
    content = entries[0].get(kind)
    if not isinstance(content, dict):
        raise KubeconfigProblem(where, "is missing or no map", "compare it with a file of kubectl")
    return where, content


def _entries(config: Mapping[str, Any], plural: str) -> Iterator[Mapping[str, Any]]:
    entries = config.get(plural)
    if not isinstance(entries, list):
        raise KubeconfigProblem(plural, "is missing or no list", "write one entry")
    yield from (entry for entry in entries if isinstance(entry, dict))


def _text(values: Mapping[str, Any], name: str, where: str, *, needed: bool = True) -> str:
    at = f"{where}.{name}" if where else name
    value = values.get(name)
    if value is None and not needed:
        return ""
    if not isinstance(value, str) or not (value or not needed):
        raise KubeconfigProblem(at, "is missing or no text", "set it")
    if not value.isascii() or not value.isprintable():
        problem = "has characters other than printable ASCII, such as a line break"
        raise KubeconfigProblem(at, problem, "write it without them")
    return value


def _server(cluster: Mapping[str, Any], where: str) -> str:
    at = f"{where}.server"
    server = _text(cluster, "server", where)
    try:
        url = yarl.URL(server)
        valid = url.scheme == "https" and bool(url.host) and url.port is not None
        plain = not (url.user or url.password or url.query_string or url.fragment)
    except ValueError:
        valid = plain = False
    if not (valid and plain):
        raise KubeconfigProblem(at, "is no URL of HTTPS", "write https://HOST:PORT")
    return server.rstrip("/")


def _pem(values: Mapping[str, Any], name: str, where: str) -> bytes:
    text = _text(values, name, where, needed=False)
    if not text:
        return b""
    try:
        pem = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        pem = b""
    if b"-----BEGIN " not in pem or not pem.isascii():
        raise KubeconfigProblem(f"{where}.{name}", "is no PEM in base64", _EMBED)
    return pem


def _identity(user: Mapping[str, Any], where: str) -> dict[str, Any]:
    token = _text(user, "token", where, needed=False)
    certificate = _pem(user, "client-certificate-data", where)
    key = _pem(user, "client-key-data", where)
    if bool(certificate) != bool(key):
        missing = "client-key-data" if certificate else "client-certificate-data"
        raise KubeconfigProblem(f"{where}.{missing}", "is missing", "a certificate needs its key")
    if bool(token) == bool(certificate):
        problem = "has both a token and a certificate" if token else "has no credentials"
        raise KubeconfigProblem(where, problem, "set either token or client-certificate-data")
    return {"token": token, "certificate": certificate, "key": key}


def _printable(name: object) -> str:
    """Return a name for a message: short, and without characters that forge log lines."""
    text = name if isinstance(name, str) else type(name).__name__
    return "".join(c if c.isprintable() else "?" for c in text)[:63]
