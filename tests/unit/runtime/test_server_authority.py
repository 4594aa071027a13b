"""Authorities of API servers that CPython 3.13 refuses by default are accepted by all releases."""

import json
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.pki import Authority

from kubenode.runtime.kube.official import connect
from kubenode.runtime.kube.plain import PlainTransport
from kubenode.runtime.kube.transport import CredentialsTransport

SERVER = "https://127.0.0.1:1"


def plain(ca_file: Path) -> CredentialsTransport:
    return PlainTransport(SERVER, str(ca_file))


def official(ca_file: Path) -> CredentialsTransport:
    cluster = {"server": SERVER, "certificate-authority": str(ca_file)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    file = ca_file.with_name("kubeconfig")
    file.write_text(json.dumps(config))
    return connect(str(file))


@pytest.mark.parametrize("transport", [plain, official])
async def test_an_authority_without_a_key_identifier_is_accepted_on_every_release(
    transport: Callable[[Path], CredentialsTransport],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = ssl.create_default_context

    def as_of_3_13(*args: Any, **more: Any) -> ssl.SSLContext:
        context = before(*args, **more)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", as_of_3_13)
    connection = await transport(Authority(tmp_path).cert_file).connect()
    try:
        connector: Any = connection.session.connector
        context: ssl.SSLContext = connector._ssl
        assert context.verify_mode == ssl.CERT_REQUIRED and context.check_hostname
        assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    finally:
        await connection.session.close()
