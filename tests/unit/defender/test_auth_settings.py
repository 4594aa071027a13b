"""Settings that would open Kube Defender to everybody do not start, and say what to do."""

from pathlib import Path
from typing import Any

import pytest
from support.clock import FakeClock

from defender.server.auth.gate import RequestAuthenticator
from defender.server.auth.rights import LOOPBACK
from kubenode.cli.all_settings import EverythingFlags
from kubenode.cli.defender_frontends import checked, gate_settings
from kubenode.cli.defender_settings import DefenderFlags
from kubenode.cli.permit_client import checked_client
from kubenode.cli.remedy_settings import RemedyFlags
from kubenode.cli.settings import local
from kubenode.runtime.process import CannotStart
from kubenode.runtime.settings import SettingsError, load

EVERYWHERE = {"listen_address": "0.0.0.0"}
FILE = str(Path(__file__))


def flags(**given: Any) -> DefenderFlags:
    return load(DefenderFlags, given)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({**EVERYWHERE, "tls": True, "token_review": False}, "--no-token-review"),
        ({**EVERYWHERE}, "--plain-http"),
        ({**EVERYWHERE, "token_file": FILE}, "--tls"),
        ({"listen_address": "::"}, "--listen-address ::"),
        ({"listen_address": "defender.example"}, "--tls"),
        ({"tls_cert_file": FILE}, "--tls-key-file"),
        ({"tls_key_file": FILE}, "--tls-cert-file"),
        ({"tls": True, "tls_cert_file": FILE, "tls_key_file": FILE}, "--tls and"),
        ({"client_ca_file": FILE}, "--client-ca-file needs HTTPS"),
        ({"token_file": "/none"}, "--token-file /none: cannot be read"),
        ({"tls": True, "client_ca_file": "/none"}, "--client-ca-file /none"),
    ],
)
def test_what_is_wrong_together_names_the_flag_to_change(given: dict[str, Any], named: str) -> None:
    with pytest.raises(CannotStart) as caught:
        checked(flags(**given))
    assert named in str(caught.value)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"listen_address": "::1"},
        {"listen_address": "127.0.0.9", "token_file": FILE},
        {**EVERYWHERE, "tls": True},
        {**EVERYWHERE, "tls_cert_file": FILE, "tls_key_file": FILE, "client_ca_file": FILE},
        {**EVERYWHERE, "plain_http": True},
        {**EVERYWHERE, "plain_http": True, "token_review": False, "token_file": FILE},
        {**EVERYWHERE, "tls": True, "token_review": False, "client_ca_file": FILE},
    ],
)
def test_what_fits_starts(given: dict[str, Any]) -> None:
    checked(flags(**given))


def test_without_an_api_nobody_is_let_in_whatever_its_address() -> None:
    checked(load(EverythingFlags, EVERYWHERE))


@pytest.mark.parametrize(
    ("given", "anyone"),
    [
        ({}, True),
        ({"token_file": FILE}, False),
        ({"token_review": True}, False),
        ({"tls": True, "client_ca_file": FILE}, False),
        ({"token_review": False}, True),
        ({**EVERYWHERE, "tls": True}, False),
        ({**EVERYWHERE, "plain_http": True, "token_file": FILE}, False),
    ],
)
async def test_only_on_loopback_and_without_anything_configured_anyone_is_let_in(
    given: dict[str, Any], anyone: bool
) -> None:
    gate = RequestAuthenticator(None, FakeClock(), gate_settings(flags(**given)))
    assert await gate.identify("") == (LOOPBACK if anyone else None)


def test_loopback_is_what_this_host_alone_reaches() -> None:
    assert [a for a in ("127.0.0.1", "127.9.9.9", "::1", "localhost") if not local(a)] == []
    assert [a for a in ("0.0.0.0", "::", "10.0.0.1", "example.org", "") if local(a)] == []


@pytest.mark.parametrize("url", ["", "defender:8082", "http://a,", "http://a b", "ftp://a"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="--defender-url"):
        load(RemedyFlags, {"defender_url": url})


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"defender_cert_file": FILE}, "--defender-key-file"),
        ({"defender_token_file": "/none"}, "--defender-token-file /none"),
        ({"defender_ca_file": "/none"}, "--defender-ca-file /none"),
    ],
)
def test_what_a_client_lacks_is_named(given: dict[str, Any], named: str) -> None:
    with pytest.raises(CannotStart, match=named):
        checked_client(load(RemedyFlags, given))


def test_replicas_are_named_with_commas_between() -> None:
    found = load(RemedyFlags, {"defender_url": "https://a:1,http://b"})
    assert found.defender_urls == ["https://a:1", "http://b"]


def test_users_that_the_webhook_leaves_alone_are_named_with_commas_between() -> None:
    known = flags(guard_exempt="ci, deployer ,", guard_listed="").guard_callers
    assert known.exempt == {"ci", "deployer"} and known.listed == frozenset()
    assert "system:serviceaccount:kubenode-system:kubenode-remedy" in known.ours


def test_our_certificate_is_for_the_service_and_a_further_name() -> None:
    names = flags(namespace="ops", tls_service="kd", tls_host="10.0.0.1").names
    assert names == ("kd.ops.svc", "kd.ops", "kd.ops.svc.cluster.local", "10.0.0.1")
