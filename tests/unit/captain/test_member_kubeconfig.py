"""Kubeconfigs of members: embedded credentials are read, everything else is refused by name."""

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.pki import Authority

from captain.members.kubeconfig import (
    MAX_BYTES,
    KubeconfigProblem,
    MemberCredentials,
    find_expiry,
    parse_kubeconfig,
)
from captain.members.transport import build_context
from kubenode.cli.member_identity import MemberEndpoint, build_kubeconfig
from kubenode.runtime.clock import SystemClock

Config = dict[str, Any]
PEM = base64.b64encode(b"-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n").decode()
SECRET = "s3cr3t-token"


def config() -> Config:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "a",
        "clusters": [
            {
                "name": "a",
                "cluster": {
                    "server": "https://10.0.0.1:6443",
                    "certificate-authority-data": PEM,
                },
            }
        ],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "users": [{"name": "a", "user": {"token": SECRET}}],
    }


def cluster(found: Config) -> Config:
    part: Config = found["clusters"][0]["cluster"]
    return part


def user(found: Config) -> Config:
    part: Config = found["users"][0]["user"]
    return part


def refuse(raw: bytes) -> str:
    with pytest.raises(KubeconfigProblem) as caught:
        parse_kubeconfig(raw)
    return str(caught.value)


def test_embedded_credentials_are_read() -> None:
    read = parse_kubeconfig(json.dumps(config()).encode())
    assert (read.server, read.token) == ("https://10.0.0.1:6443", SECRET)
    assert read.authority.startswith("-----BEGIN")
    assert SECRET not in repr(read)


def test_what_an_import_writes_is_read() -> None:
    endpoint = MemberEndpoint("https://a:1", "-----BEGIN x", "kubernetes")
    read = parse_kubeconfig(build_kubeconfig("east", endpoint, SECRET))
    assert (read.server, read.authority, read.server_name, read.token) == (
        "https://a:1",
        "-----BEGIN x",
        "kubernetes",
        SECRET,
    )


Change = Callable[[Config], object]
REFUSED: dict[str, tuple[Change, str, str]] = {
    "program": (
        lambda c: user(c).update({"exec": {"command": "touch", "args": ["/tmp/x"]}}),
        "users[a].user.exec",
        "member import",
    ),
    "plugin": (
        lambda c: user(c).update({"auth-provider": {"name": "gcp"}}),
        "users[a].user.auth-provider",
        "member import",
    ),
    "token file": (
        lambda c: user(c).update({"tokenFile": "/etc/passwd"}),
        "users[a].user.tokenFile",
        "`token`",
    ),
    "certificate file": (
        lambda c: user(c).update({"client-certificate": "/c"}),
        "users[a].user.client-certificate",
        "--flatten",
    ),
    "key file": (
        lambda c: user(c).update({"client-key": "/k"}),
        "users[a].user.client-key",
        "--flatten",
    ),
    "authority file": (
        lambda c: cluster(c).update({"certificate-authority": "/ca"}),
        "clusters[a].cluster.certificate-authority",
        "--flatten",
    ),
    "no verification": (
        lambda c: cluster(c).update({"insecure-skip-tls-verify": True}),
        "clusters[a].cluster.insecure-skip-tls-verify",
        "certificate-authority-data",
    ),
    "proxy": (
        lambda c: cluster(c).update({"proxy-url": "http://p"}),
        "clusters[a].cluster.proxy-url",
        "HTTPS_PROXY",
    ),
    "password": (
        lambda c: user(c).update({"username": "a", "password": "b"}),
        "users[a].user.username",
        "token",
    ),
    "impersonation": (lambda c: user(c).update({"as": "admin"}), "users[a].user.as", "remove"),
    "unknown field": (lambda c: c.update({"more": 1}), "more", "remove"),
    "plain HTTP": (
        lambda c: cluster(c).update({"server": "http://10.0.0.1"}),
        "clusters[a].cluster.server",
        "https://",
    ),
    "password in the URL": (
        lambda c: cluster(c).update({"server": "https://a:b@10.0.0.1"}),
        "clusters[a].cluster.server",
        "https://",
    ),
    "no URL": (
        lambda c: cluster(c).update({"server": "https://[::1"}),
        "clusters[a].cluster.server",
        "https://",
    ),
    "authority that is no PEM": (
        lambda c: cluster(c).update({"certificate-authority-data": "AAAA"}),
        "clusters[a].cluster.certificate-authority-data",
        "--flatten",
    ),
    "certificate without key": (
        lambda c: (user(c).pop("token"), user(c).update({"client-certificate-data": PEM})),
        "users[a].user.client-key-data",
        "key",
    ),
    "two identities": (
        lambda c: user(c).update({"client-certificate-data": PEM, "client-key-data": PEM}),
        "users[a].user",
        "either",
    ),
    "no identity": (lambda c: user(c).pop("token"), "users[a].user", "no credentials"),
    "header injection": (
        lambda c: user(c).update({"token": "a\r\nImpersonate-User: admin"}),
        "users[a].user.token",
        "line break",
    ),
    "number for a token": (lambda c: user(c).update({"token": 3}), "users[a].user.token", "text"),
    "no context": (lambda c: c.pop("current-context"), "current-context", "set it"),
    "other context": (lambda c: c.update({"current-context": "b"}), "current-context", "0 times"),
    "two contexts": (
        lambda c: c["contexts"].append(c["contexts"][0]),
        "current-context",
        "2 times",
    ),
    "no user": (lambda c: c.update({"users": []}), "contexts[a].context.user", "0 times"),
    "no clusters": (lambda c: c.pop("clusters"), "clusters", "one entry"),
    "user of no map": (lambda c: c["users"][0].update({"user": "x"}), "users[a].user", "no map"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_kubeconfig_is_refused_with_field_and_remedy(case: str) -> None:
    change, field, remedy = REFUSED[case]
    made = config()
    change(made)
    text = refuse(json.dumps(made).encode())
    assert text.startswith(f"{field}: ") and remedy in text
    assert SECRET not in text


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x00",
        b"[",
        b"- a",
        b"\xff\xfe",
        b"[" * 5000,
        b"a: &a [x, *a]",
        b"!!python/object/apply:os.system [touch /tmp/x]",
        b"clusters: 3",
    ],
)
def test_what_is_no_kubeconfig_is_refused(raw: bytes) -> None:
    assert refuse(raw)


def test_a_large_kubeconfig_is_refused_before_it_is_parsed() -> None:
    assert str(MAX_BYTES) in refuse(b"a" * 5_000_000)


def test_a_name_cannot_forge_a_line_of_a_log() -> None:
    made = config() | {"x\nlevel=error": 1}
    assert "\n" not in refuse(json.dumps(made).encode())


def test_a_client_certificate_is_loaded_without_a_file(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    identity = authority.issue("captain", "captain")
    made = config()
    del user(made)["token"]
    files = {"client-certificate-data": identity.cert_file, "client-key-data": identity.key_file}
    for name, file in files.items():
        user(made)[name] = base64.b64encode(file.read_bytes()).decode()
    pem = base64.b64encode(authority.cert_file.read_bytes()).decode()
    cluster(made)["certificate-authority-data"] = pem
    context = build_context(parse_kubeconfig(json.dumps(made).encode()))
    assert len(context.get_ca_certs()) == 1 and context.check_hostname


@pytest.mark.parametrize("field", ["certificate-authority-data", "client-certificate-data"])
def test_a_garbled_certificate_is_refused(field: str) -> None:
    made = config()
    if field.startswith("client"):
        del user(made)["token"], cluster(made)["certificate-authority-data"]
        user(made).update({field: PEM, "client-key-data": PEM})
    with pytest.raises(KubeconfigProblem, match=field):
        build_context(parse_kubeconfig(json.dumps(made).encode()))


def token(claims: object) -> MemberCredentials:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return MemberCredentials("https://a", token=f"h.{payload}.s")


def test_the_expiry_of_a_token_is_read() -> None:
    assert find_expiry(token({"exp": 1795910400})) == datetime(2026, 11, 29, tzinfo=UTC)


@pytest.mark.parametrize("claims", [{}, {"exp": "x"}, {"exp": 10**30}, {"exp": None}, [], 3])
def test_a_token_without_expiry_has_none(claims: object) -> None:
    assert find_expiry(token(claims)) is None
    assert find_expiry(MemberCredentials("https://a", token="opaque")) is None


def test_the_expiry_of_a_certificate_is_read(tmp_path: Path) -> None:
    identity = Authority(tmp_path).issue("captain", "captain", life=timedelta(days=3))
    read = find_expiry(MemberCredentials("https://a", certificate=identity.cert_file.read_bytes()))
    assert read is not None and timedelta(days=2) < read - SystemClock().now() < timedelta(days=4)
