"""Checks who is let in to a dashboard: by the reverse proxy in front, and only over TLS."""

from pathlib import Path

from kubenode.cli.dashboard_settings import DashboardFlags
from kubenode.cli.settings import local
from kubenode.runtime.process import CannotStart
from kubenode.runtime.site.people import Proxy, networks


def check_encryption(address: str, *, encrypted: bool, remedy: str) -> None:
    """Raise CannotStart for a dashboard that sends tokens unencrypted to other hosts.

    remedy: the flags of a certificate.
    """
    if not (local(address) or encrypted):
        raise CannotStart(
            f"--dashboard-address {address}: others than this host reach it, and"
            f" tokens would be sent in the clear: give {remedy}, or --plain-http"
            " where a mesh or a proxy beside us encrypts"
        )


def proxy_of(settings: DashboardFlags) -> Proxy:
    """Return the reverse proxy that the settings trust. Raises CannotStart for unsafe settings."""
    named = settings.dashboard_proxy_addresses
    try:
        within = networks(tuple(each.strip() for each in named.split(",") if each.strip()))
    except ValueError as error:
        raise CannotStart(
            f"--dashboard-proxy-addresses {named}: {error}; write addresses or networks like"
            " 10.0.0.0/24, commas between"
        ) from error
    if settings.dashboard_user_header and not within:
        raise CannotStart(
            "--dashboard-user-header would be believed of whoever sends it: say with"
            " --dashboard-proxy-addresses where the proxy speaks from"
        )
    if settings.dashboard_user_prefix.startswith("system:"):
        raise CannotStart("--dashboard-user-prefix: system: is for parts of Kubernetes, not people")
    secret = _secret(settings.dashboard_proxy_secret_file)
    if settings.dashboard_user_header and not (secret or all(n.is_loopback for n in within)):
        raise CannotStart(
            f"--dashboard-proxy-addresses {named}: whoever sends from there is whom they name: give"
            " --dashboard-proxy-secret-file, whose secret the proxy sends in X-Proxy-Secret,"
            " or only addresses of loopback"
        )
    return Proxy(
        user=settings.dashboard_user_header,
        groups=settings.dashboard_groups_header,
        within=within,
        secret=secret,
        prefix=settings.dashboard_user_prefix,
    )


def _secret(file: str | None) -> str:
    if file is None:
        return ""
    try:
        secret = Path(file).read_text().strip()
    except (OSError, ValueError) as error:
        raise CannotStart(f"--dashboard-proxy-secret-file {file}: not readable: {error}") from None
    if not secret:
        raise CannotStart(f"--dashboard-proxy-secret-file {file}: it is empty: write a secret")
    return secret
