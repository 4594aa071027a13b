"""The settings of `kubenode run captain`, beyond those of every program."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kubenode.cli.dashboard_settings import DASHBOARD, DashboardFlags
from kubenode.cli.member_app import MEMBERS_NAMESPACE
from kubenode.runtime.settings_model import LOGS, port, setting

if TYPE_CHECKING:
    from captain.operator import CaptainSettings

MEMBERS = "Member clusters"


@dataclass(frozen=True)
class CaptainFlags(DashboardFlags):
    """Settings of `kubenode run captain`."""

    health_port: int = port(
        8090, "Port of /healthz, /readyz and /metrics; 0 selects a free port.", LOGS
    )
    member_probe_seconds: float = setting(
        60.0,
        "Seconds between two probes of a member cluster; default 60.",
        MEMBERS,
        metavar="NUMBER",
        unit="seconds",
        ge=2.0,
        le=3600.0,
    )

    members_namespace: str = setting(
        MEMBERS_NAMESPACE,
        f"Namespace of the Secrets with kubeconfigs; default {MEMBERS_NAMESPACE}.",
        MEMBERS,
        metavar="NAME",
        min_length=1,
        max_length=63,
    )
    tls_cert_file: str | None = setting(
        None, "File with the certificate for HTTPS of the dashboard.", DASHBOARD, metavar="FILE"
    )
    tls_key_file: str | None = setting(
        None, "File with the private key of --tls-cert-file.", DASHBOARD, metavar="FILE"
    )
    plain_http: bool = setting(
        False, "Serve other hosts without TLS, where a service mesh encrypts.", DASHBOARD
    )

    @property
    def captain(self) -> "CaptainSettings":
        from captain.operator import CaptainSettings

        return CaptainSettings(self.members_namespace, self.member_probe_seconds)
