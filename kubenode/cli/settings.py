"""Settings that several programs of `kubenode run` share, beyond those of the runtime.

Each model is a part of a program, and the model of a program is composed of its parts. The flags of
the command line derive from these models, so these modules import nothing heavy: a property that
builds an object of another package imports it when it is read. The function `checked` of each
program validates combinations.
"""

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kubenode.runtime.serverlimits import DEFAULT, HttpLimits
from kubenode.runtime.settings_model import LOGS, ProcessSettings, Settings, setting

if TYPE_CHECKING:
    from defender.client import ClientTls
    from kubenode.runtime.tls.files import PemFiles

URL = r"^https?://[^,\s]+$"
CLUSTER_NAME = "^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$"
URLS = r"^https?://[^,\s]+(,https?://[^,\s]+)*$"

PROCESS = "Process"
HTTP = "Limits of every port"
CLIENT = "Connection to Kube Defender"
WEBHOOK = "Admission webhook"
MACHINES = "Machines and providers"
OUTPUTS = "Receivers and bundles"
HISTORY = "Insight"


def path_of(text: str | None) -> Path | None:
    return Path(text) if text else None


def local(address: str) -> bool:
    """Return whether only this host reaches what listens at the address."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def entries(text: str) -> list[str]:
    """Return the entries of a list separated by commas."""
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def pem_files(cert_file: str | None, key_file: str | None) -> "PemFiles":
    from kubenode.runtime.tls.files import PemFiles

    return PemFiles(path_of(cert_file), path_of(key_file))


@dataclass(frozen=True)
class HttpFlags(ProcessSettings):
    """Limits of every port of a program."""

    http_read_seconds: float = setting(
        DEFAULT.read_seconds,
        "Seconds in which a request must arrive completely; default 10.",
        HTTP,
        metavar="NUMBER",
        unit="seconds",
        ge=0.1,
        le=120.0,
    )
    http_connections: int = setting(
        DEFAULT.connections,
        "Maximum number of open connections per port; 8 times as many for Host Doctor;"
        " default 512.",
        HTTP,
        metavar="NUMBER",
        ge=8,
    )
    http_connections_per_address: int = setting(
        DEFAULT.per_address,
        "Maximum number of open connections from one address; default 256.",
        HTTP,
        metavar="NUMBER",
        ge=1,
    )
    http_body_bytes: int = setting(
        DEFAULT.body_bytes,
        "Maximum size of all request bodies that a port reads at the same time; default 24 MiB.",
        HTTP,
        metavar="NUMBER",
        unit="bytes",
        ge=2**20,
    )

    @property
    def http_limits(self) -> HttpLimits:
        return HttpLimits(
            self.http_read_seconds,
            self.http_connections,
            self.http_connections_per_address,
            self.http_body_bytes,
        )


@dataclass(frozen=True)
class Central(HttpFlags, Settings):
    """Settings of all central programs beyond those of the runtime."""

    no_lease: bool = setting(
        False, "Run without leader election; only for a single replica.", PROCESS, "--no-lease"
    )
    audit_file: str = setting(
        "-",
        "File of the audit log, as JSON lines; default: -, standard output; '' for none.",
        LOGS,
        metavar="FILE",
    )
    lineage_file: str = setting(
        "",
        "File by which a restarted process detects a restore of etcd; default: none.",
        PROCESS,
        metavar="FILE",
    )
    traces_url: str = setting(
        "",
        "URL of a collector for traces of faults, by OTLP over HTTP; default: none.",
        LOGS,
        metavar="URL",
        pattern=f"^$|{URL}",
    )


@dataclass(frozen=True)
class AskerFlags(Central):
    """Address and credentials of Kube Defender, for programs that call it over HTTP."""

    defender_url: str = setting(
        "http://127.0.0.1:8082",
        "URLs of the replicas of Kube Defender.",
        CLIENT,
        metavar="URL,...",
        pattern=URLS,
    )
    defender_token_file: str | None = setting(
        None, "File with the bearer token to authenticate to Kube Defender.", CLIENT, metavar="FILE"
    )
    defender_ca_file: str | None = setting(
        None, "File with the certificate authority of Kube Defender.", CLIENT, metavar="FILE"
    )
    defender_cert_file: str | None = setting(
        None, "File with the client certificate.", CLIENT, metavar="FILE"
    )
    defender_key_file: str | None = setting(
        None, "File with the private key of --defender-cert-file.", CLIENT, metavar="FILE"
    )

    @property
    def defender_urls(self) -> list[str]:
        return self.defender_url.split(",")

    @property
    def defender_tls(self) -> "ClientTls":
        from defender.client import ClientTls

        return ClientTls(
            path_of(self.defender_ca_file),
            path_of(self.defender_cert_file),
            path_of(self.defender_key_file),
        )


@dataclass(frozen=True)
class ProvidersFlags(Central):
    """The providers of machines, for programs that switch or make machines."""

    providers_file: str | None = setting(
        None, "File with the providers that control the machines.", MACHINES, metavar="FILE"
    )


@dataclass(frozen=True)
class WebhookServerFlags(Central):
    """Settings that both admission webhooks share: the one for rules and the one for machines."""

    webhook_address: str = setting(
        "127.0.0.1", "Address of the webhook; default 127.0.0.1.", WEBHOOK, metavar="ADDRESS"
    )
    webhook_host: str | None = setting(
        None, "Additional name or address in the certificate of the webhook.", WEBHOOK
    )
    webhook_cert_file: str | None = setting(
        None, "File with the certificate; it is read again when it changes.", WEBHOOK
    )
    webhook_key_file: str | None = setting(
        None, "File with the private key of --webhook-cert-file.", WEBHOOK
    )

    @property
    def webhook_files(self) -> "PemFiles":
        return pem_files(self.webhook_cert_file, self.webhook_key_file)


@dataclass(frozen=True)
class InsightLinkFlags(Central):
    """The address of Insight for people, for programs that link to incidents."""

    insight_url: str = setting(
        "",
        "URL of Insight for people, to which the dashboard and notifications link; default: none.",
        HISTORY,
        metavar="URL",
        pattern=f"^$|{URL}",
    )
