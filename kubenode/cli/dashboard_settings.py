"""The settings of the dashboards of Kube Defender and Captain."""

from dataclasses import dataclass

from kubenode.cli.settings import Central
from kubenode.runtime.settings_model import port, setting

HEADER = "^[A-Za-z0-9-]*$"
DASHBOARD = "Dashboard"


@dataclass(frozen=True)
class DashboardFlags(Central):
    """Settings of the dashboard of a program."""

    dashboard_port: int | None = port(
        None, "Port of the dashboard; 0 selects a free port; default: no dashboard.", DASHBOARD
    )
    dashboard_address: str = setting(
        "127.0.0.1", "Address of the dashboard; default 127.0.0.1.", DASHBOARD, metavar="ADDRESS"
    )
    dashboard_key_file: str | None = setting(
        None,
        "File with the key that seals cookies of the dashboard; shared by replicas.",
        DASHBOARD,
        metavar="FILE",
    )
    dashboard_user_header: str = setting(
        "",
        "Header in which a reverse proxy names the authenticated user.",
        DASHBOARD,
        metavar="HEADER",
        pattern=HEADER,
    )
    dashboard_groups_header: str = setting(
        "",
        "Header in which the reverse proxy names the groups of the user.",
        DASHBOARD,
        metavar="HEADER",
        pattern=HEADER,
    )
    dashboard_proxy_addresses: str = setting(
        "", "Addresses of the reverse proxy.", DASHBOARD, metavar="NETWORK,..."
    )
    dashboard_proxy_secret_file: str | None = setting(
        None,
        "File with the secret that the reverse proxy sends in the header X-Proxy-Secret.",
        DASHBOARD,
        metavar="FILE",
    )
    dashboard_user_prefix: str = setting(
        "",
        "Prefix of the users and groups that the reverse proxy names, such as oidc:",
        DASHBOARD,
        metavar="PREFIX",
    )
