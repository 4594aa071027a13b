"""The settings of `kubenode run defender`, beyond those of every program."""

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kubenode.cli.dashboard_settings import DashboardFlags
from kubenode.cli.settings import CLUSTER_NAME, InsightLinkFlags, entries, pem_files
from kubenode.runtime.settings_model import LOGS, port, setting

if TYPE_CHECKING:
    from defender.webhook.callers import Callers
    from kubenode.runtime.tls.files import PemFiles

API = "Kube Defender's API"
GUARD = "Guard of acts of others"
REDIS = "Redis"


def _check_address(text: str) -> None:
    ipaddress.ip_address(text)


@dataclass(frozen=True)
class ApiFlags(DashboardFlags, InsightLinkFlags):
    """Settings of Kube Defender's API and admission webhook, for programs that run it."""

    listen_address: str = setting(
        "127.0.0.1", "Address of the API; default 127.0.0.1.", API, metavar="ADDRESS"
    )
    listen_port: int | None = port(None, "Port of the API; 0 selects a free port.", API)
    token_file: str | None = setting(
        None, "File with a bearer token that clients may use.", API, metavar="FILE"
    )
    token_review: bool | None = setting(
        None, "Validate bearer tokens by TokenReview; default: yes.", API
    )
    token_audience: str = setting("", "Audience that a bearer token must have.", API)
    client_ca_file: str | None = setting(
        None, "File with the certificate authority of clients.", API, metavar="FILE"
    )
    permit_holders: str = setting(
        "",
        "Additional users that may request permits for holders of a kind, separated by commas.",
        API,
        metavar="KIND=USER",
        pattern=r"^$|^[A-Za-z]+=[^,\s]+(,[A-Za-z]+=[^,\s]+)*$",
    )
    tls: bool = setting(
        False, "Serve HTTPS with a certificate of an authority that the program creates.", API
    )
    tls_cert_file: str | None = setting(
        None, "File with the certificate for HTTPS.", API, metavar="FILE"
    )
    tls_key_file: str | None = setting(
        None, "File with the private key of --tls-cert-file.", API, metavar="FILE"
    )
    tls_service: str = setting("kubenode-defender", "Service of the API and the webhook.", API)
    tls_host: str | None = setting(None, "Additional name or address in the certificate.", API)
    plain_http: bool = setting(
        False, "Serve other hosts without TLS, where a service mesh encrypts.", API
    )
    guard_port: int | None = port(
        None,
        "Port of the admission webhook that holds the acts of other clients to the budget;"
        " default: none.",
        GUARD,
    )
    guard_address: str = setting(
        "127.0.0.1", "Address of that webhook; default 127.0.0.1.", GUARD, metavar="ADDRESS"
    )
    guard_cert_file: str | None = setting(
        None, "File with the certificate; it is read again when it changes.", GUARD
    )
    guard_key_file: str | None = setting(
        None, "File with the private key of --guard-cert-file.", GUARD
    )
    guard_exempt: str = setting(
        "", "Additional users whose acts the webhook always allows.", GUARD, metavar="USER,..."
    )
    guard_listed: str = setting(
        "",
        "Cloud controllers and autoscalers whose acts the webhook checks.",
        GUARD,
        metavar="USER,...",
    )

    @property
    def names(self) -> tuple[str, ...]:
        """Return the host names for our certificate."""
        name = f"{self.tls_service}.{self.namespace}"
        more = [self.tls_host] if self.tls_host else []
        return (f"{name}.svc", name, f"{name}.svc.cluster.local", *more)

    @property
    def holder_users(self) -> dict[str, frozenset[str]]:
        from defender.server.auth.holders import users_of

        return users_of(self.namespace, entries(self.permit_holders))

    @property
    def guard_files(self) -> "PemFiles":
        return pem_files(self.guard_cert_file, self.guard_key_file)

    @property
    def guard_callers(self) -> "Callers":
        from defender.webhook.callers import callers

        return callers(self.namespace, entries(self.guard_exempt), entries(self.guard_listed))


@dataclass(frozen=True)
class DefenderFlags(ApiFlags):
    """Settings of `kubenode run defender`."""

    listen_port: int | None = port(8082, "Port of the API; 0 selects a free port.", API)
    health_port: int = port(
        8083, "Port of /healthz, /readyz and /metrics; 0 selects a free port.", LOGS
    )
    leader_address: str | None = setting(
        None,
        "IP address of the pod; Services without a selector point to it while it leads.",
        API,
        metavar="ADDRESS",
        check=_check_address,
    )
    redis_url: str | None = setting(
        None, "URL of the Redis that replicas and clusters share.", REDIS, metavar="URL"
    )
    redis_password_file: str | None = setting(
        None, "File with the password of Redis.", REDIS, metavar="FILE"
    )
    redis_ca_file: str | None = setting(
        None, "File with the certificate authority for rediss://.", REDIS, metavar="FILE"
    )
    cluster: str | None = setting(
        None,
        "Name of this cluster in Redis; default: a UID.",
        REDIS,
        min_length=1,
        max_length=63,
        pattern=CLUSTER_NAME,
    )
