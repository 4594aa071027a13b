"""Settings that would let in whoever likes, or send tokens in the clear, end the program."""

from pathlib import Path
from typing import Any

import pytest

from kubenode.cli.dashboard import check_dashboard
from kubenode.cli.dashboard_proxy import proxy_of
from kubenode.cli.defender_settings import DefenderFlags
from kubenode.runtime.process import CannotStart


def flags(**given: Any) -> DefenderFlags:
    return DefenderFlags(**({"dashboard_port": 8084} | given))


@pytest.mark.parametrize(
    ("given", "encrypted", "said"),
    [
        ({"dashboard_address": "0.0.0.0"}, False, "sent in the clear"),
        ({"dashboard_user_header": "X-User"}, True, "believed of whoever sends it"),
        (
            {"dashboard_user_header": "X-User", "dashboard_proxy_addresses": "10.0.0.300"},
            True,
            "write addresses or networks",
        ),
        (
            {
                "dashboard_user_header": "X-User",
                "dashboard_proxy_addresses": "10.0.0.1",
                "dashboard_user_prefix": "system:",
            },
            True,
            "not people",
        ),
        (
            {"dashboard_user_header": "X-User", "dashboard_proxy_addresses": "127.0.0.1,10.0.0.1"},
            True,
            "give --dashboard-proxy-secret-file",
        ),
        ({"dashboard_proxy_secret_file": "/nonexistent/secret"}, True, "not readable"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_to_do(
    given: dict[str, Any], encrypted: bool, said: str
) -> None:
    with pytest.raises(CannotStart, match=said):
        check_dashboard(flags(**given), encrypted=encrypted)


@pytest.mark.parametrize(
    ("given", "encrypted"),
    [
        ({}, False),
        ({"dashboard_address": "::1"}, False),
        ({"dashboard_address": "0.0.0.0"}, True),
        ({"dashboard_address": "0.0.0.0", "plain_http": True}, False),
        ({"dashboard_port": None, "dashboard_address": "0.0.0.0"}, False),
        ({"dashboard_user_header": "X-User", "dashboard_proxy_addresses": "127.0.0.1,::1"}, False),
    ],
)
def test_what_is_safe_is_taken(given: dict[str, Any], encrypted: bool) -> None:
    check_dashboard(flags(**given), encrypted=encrypted)


def test_a_proxy_is_known_by_its_addresses_and_its_secret(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("between us\n")
    proxy = proxy_of(
        flags(
            dashboard_user_header="X-User",
            dashboard_groups_header="X-Groups",
            dashboard_proxy_addresses="10.0.0.0/24, fd00::1",
            dashboard_proxy_secret_file=str(secret),
        )
    )
    assert (proxy.user, proxy.groups, proxy.secret) == ("X-User", "X-Groups", "between us")
    assert proxy.trusts("10.0.0.7") and proxy.trusts("fd00::1")
    assert not proxy.trusts("10.0.1.7") and not proxy.trusts("")
    secret.write_text(" ")
    with pytest.raises(CannotStart, match="empty"):
        proxy_of(flags(dashboard_proxy_secret_file=str(secret)))
