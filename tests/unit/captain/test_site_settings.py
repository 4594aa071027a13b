"""Settings that would let anyone in, or send tokens unencrypted, end `kubenode run captain`."""

from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from support.clock import FakeClock
from support.release_api import ReleaseApiDouble

from captain.operator import Captain
from kubenode.cli.captain_settings import CaptainFlags
from kubenode.cli.captain_site import build_site_parts, check_site
from kubenode.runtime.fence import AlwaysLeader
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.process import CannotStart


def make_flags(**given: Any) -> CaptainFlags:
    return CaptainFlags(**({"dashboard_port": 8091} | given))


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"dashboard_address": "0.0.0.0"}, "--tls-cert-file"),
        ({"tls_cert_file": "/cert"}, "belong together"),
        ({"tls_key_file": "/key", "dashboard_port": None}, "belong together"),
        ({"dashboard_user_header": "X-User"}, "believed of whoever sends it"),
        ({"dashboard_proxy_secret_file": "/nonexistent/secret"}, "not readable"),
    ],
)
def test_unsafe_settings_are_refused_with_a_remedy(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(CannotStart, match=problem):
        check_site(make_flags(**given))


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"dashboard_address": "0.0.0.0", "tls_cert_file": "/cert", "tls_key_file": "/key"},
        {"dashboard_address": "0.0.0.0", "plain_http": True},
        {"dashboard_address": "0.0.0.0", "dashboard_port": None},
    ],
)
def test_safe_settings_are_accepted(given: dict[str, Any]) -> None:
    check_site(make_flags(**given))


def list_parts(**given: Any) -> list[str]:
    kube, clock = Kube(ReleaseApiDouble().connect("")), FakeClock()
    flags = make_flags(**given)
    operator = Captain(kube, AlwaysLeader(), clock, CollectorRegistry(), flags.captain)
    return [part.name for part in build_site_parts(operator, kube, clock, flags)]


def test_pages_are_served_with_a_port_alone() -> None:
    assert list_parts(dashboard_port=None) == []
    assert "dashboard server" in list_parts()


def test_unreadable_certificate_ends_the_program(tmp_path: Path) -> None:
    files = {"tls_cert_file": str(tmp_path / "cert"), "tls_key_file": str(tmp_path / "key")}
    with pytest.raises(CannotStart, match="--tls-cert-file"):
        list_parts(**files)
