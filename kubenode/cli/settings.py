"""The settings of `kubenode run remedy|defender|all`, beyond those of every program.

Each field validates its own value. The function `checked` of each program validates combinations.
"""

import ipaddress
from pathlib import Path

from pydantic import Field, IPvAnyAddress, field_validator

from defender.client import ClientTls
from defender.server.auth.holders import users_of
from defender.webhook.callers import Callers, callers
from kubenode.api.share import PATTERN as SHARE
from kubenode.runtime.httplimits import DEFAULT, HttpLimits
from kubenode.runtime.settings import Settings
from kubenode.runtime.tls.files import PemFiles
from remedy.operator import RemedySettings
from remedy.registry.radius import MOST_MATCHING
from remedy.webhook.webhook import RuleWebhookSettings
from rules.nodekeys import ALLOWED, NodeKeys

HEADER = "^[A-Za-z0-9-]*$"
URL = r"^https?://[^,\s]+$"
CLUSTER = "^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$"
URLS = r"^https?://[^,\s]+(,https?://[^,\s]+)*$"


class Central(Settings):
    """Settings of all central programs beyond those of the runtime."""

    no_lease: bool = Field(False, description="elect no leader; only where nobody else runs")
    audit_file: str = Field(
        "-",
        description="where acts and refusals are written as JSON lines; -: stdout; empty: nowhere",
    )
    lineage_file: str = Field(
        "",
        description="a file outside etcd by which a restarted process notices a restore of etcd",
    )
    traces_url: str = Field(
        "",
        pattern=f"^$|{URL}",
        description="where spans go by OTLP over HTTP, such as http://HOST:4318/v1/traces",
    )
    http_read_seconds: float = Field(
        DEFAULT.read_seconds,
        ge=0.1,
        le=120.0,
        description="in which a request must arrive at any port of ours",
    )
    http_connections: int = Field(
        DEFAULT.connections, ge=8, description="open at each port at once; Host Doctor: 8 times it"
    )
    http_connections_per_address: int = Field(
        DEFAULT.per_address, ge=1, description="of these, from one address"
    )
    http_body_bytes: int = Field(
        DEFAULT.body_bytes,
        ge=2**20,
        description="of all bodies that a port takes in at once; one address has half of it",
    )

    @property
    def http_limits(self) -> HttpLimits:
        return HttpLimits(
            self.http_read_seconds,
            self.http_connections,
            self.http_connections_per_address,
            self.http_body_bytes,
        )


class AskerFlags(Central):
    """Address and credentials of Kube Defender, for programs that call it over HTTP."""

    defender_url: str = Field(
        "http://127.0.0.1:8082",
        pattern=URLS,
        description="where Kube Defender listens; several replicas with commas between",
    )
    defender_token_file: str | None = Field(None, description="bearer token for Kube Defender")
    defender_ca_file: str | None = Field(
        None, description="who signs Kube Defender's certificate; else whom the system trusts"
    )
    defender_cert_file: str | None = Field(None, description="our certificate, for https")
    defender_key_file: str | None = Field(None, description="the key of our certificate")

    @property
    def defender_urls(self) -> list[str]:
        return self.defender_url.split(",")

    @property
    def defender_tls(self) -> ClientTls:
        return ClientTls(
            path_of(self.defender_ca_file),
            path_of(self.defender_cert_file),
            path_of(self.defender_key_file),
        )


class PrometheusFlags(Central):
    """Settings of programs that run the Machine operator."""

    prometheus_url: str = Field(
        "",
        pattern=f"{URL}|^$",
        description="the Prometheus that inspections of rollouts ask; empty: none is asked",
    )


class MachineMakingFlags(Central):
    """Settings of programs that run the Machine operator, which also makes machines."""

    providers_file: str | None = Field(
        None, description="who runs and makes the machines; docs/providers.md"
    )
    cluster: str | None = Field(
        None,
        min_length=1,
        max_length=63,
        pattern=CLUSTER,
        description="name of this cluster on its machines; default: the uid of namespace"
        " kube-system",
    )
    join_server: str = Field(
        "",
        pattern=r"^$|^https://[^\s/,]+/?$",
        description="the API server as new hosts reach it; default: as we do",
    )
    agent_package: str = Field(
        "",
        pattern=r"^$|^https?://[^\s#'\"]+\.deb#sha256=[0-9a-f]{64}$",
        description="where new hosts find the agent, URL#sha256=DIGEST; empty: in their image",
    )


class HostDoctorFlags(Central):
    """Settings of Host Doctor's listener, for programs that run the remedy operator."""

    host_doctor_port: int | None = Field(
        None, ge=0, le=65535, description="where Host Doctor listens; 0: free; not given: nowhere"
    )
    host_doctor_address: str = Field("127.0.0.1", description="where Host Doctor listens")
    host_doctor_token_files: str = Field(
        "", description="files of bearer tokens, a line each, of those that may tell it something"
    )
    host_doctor_token_audience: str = Field(
        "", description="whom tokens of agents' service accounts must be made for"
    )
    host_doctor_client_ca_file: str | None = Field(
        None, description="who signs the certificates of agents and of other clients"
    )
    host_doctor_clients: str = Field(
        "", description="common names of clients beside agents, commas between"
    )
    host_doctor_cert_file: str | None = Field(
        None, description="its certificate; else one of our own authority"
    )
    host_doctor_key_file: str | None = Field(None, description="the key of its certificate")
    host_doctor_service: str = Field(
        "kubenode-host-doctor", description="Service in our namespace that leads to it"
    )
    host_doctor_host: str | None = Field(
        None, description="further name or address in its certificate"
    )
    host_doctor_plain_http: bool = Field(
        False, description="without TLS, where a mesh encrypts or nobody else reaches it"
    )
    bundles: str | None = Field(
        None, description="a folder or s3://BUCKET/PREFIX, where diagnostics of hosts are kept"
    )
    bundles_endpoint: str = Field("", description="another service than AWS that speaks S3")

    @property
    def host_doctor_tokens(self) -> tuple[Path, ...]:
        return tuple(Path(file) for file in _entries(self.host_doctor_token_files))

    @property
    def host_doctor_allowed(self) -> frozenset[str]:
        return frozenset(_entries(self.host_doctor_clients))

    @property
    def host_doctor_names(self) -> tuple[str, ...]:
        """Return the host names for its certificate."""
        name = f"{self.host_doctor_service}.{self.namespace}"
        more = [self.host_doctor_host] if self.host_doctor_host else []
        return (f"{name}.svc", name, f"{name}.svc.cluster.local", *more)


class WebhookFlags(HostDoctorFlags):
    """Settings of the admission webhook for rules, for programs that run the remedy operator."""

    webhook_port: int | None = Field(
        None, ge=0, le=65535, description="where rules are checked before they are stored; 0: free"
    )
    webhook_address: str = Field("127.0.0.1", description="where the webhook listens")
    webhook_service: str = Field(
        "kubenode-remedy-webhook", description="Service in our namespace that leads to it"
    )
    webhook_host: str | None = Field(
        None, description="further name or address of it, where the API server is given a URL"
    )
    webhook_cert_file: str | None = Field(
        None, description="its certificate, which others renew; without it the program makes one"
    )
    webhook_key_file: str | None = Field(None, description="the key of that certificate")
    webhook_max_matching: str = Field(
        MOST_MATCHING,
        pattern=f"{SHARE}|^[0-9]+$",
        description="nodes that a new rule in Enforce may match at once, a count or a share",
    )
    node_keys: str = Field(
        ",".join(ALLOWED),
        description="labels and annotations that rules may set on Nodes, commas between; * at the"
        " end of an entry stands for any ending",
    )
    disruptive_node_keys: str = Field(
        "", description="further ones, which only rungs of class Pods or Node may set"
    )
    providers_file: str | None = Field(
        None, description="who runs the machines, and can switch them; docs/providers.md"
    )
    receivers_file: str | None = Field(
        None, description="whom jobs may tell and hand over to; docs/notifications.md"
    )
    webhook_spokesmen: str = Field(
        "", description="users whose words about jobs may be another's, commas between"
    )

    @field_validator("node_keys", "disruptive_node_keys")
    @classmethod
    def _can_take_effect(cls, text: str) -> str:
        for fault in NodeKeys(_entries(text)).entry_faults():
            raise ValueError(fault)
        return text

    @property
    def max_matching(self) -> int | str:
        """Return the limit on matching nodes.

        It applies at admission, and at load even without a webhook.
        """
        most = self.webhook_max_matching
        return most if most.endswith("%") else int(most)

    @property
    def remedy(self) -> RemedySettings:
        keys = NodeKeys(tuple(_entries(self.node_keys)), tuple(_entries(self.disruptive_node_keys)))
        return RemedySettings(node_keys=keys)

    @property
    def webhook(self) -> RuleWebhookSettings | None:
        """Return the settings of the webhook; None if there is no webhook."""
        if self.webhook_port is None:
            return None
        return RuleWebhookSettings(
            self.webhook_port,
            address=self.webhook_address,
            namespace=self.namespace,
            service=self.webhook_service,
            hosts=(self.webhook_host,) if self.webhook_host else (),
            most=self.max_matching,
            spokesmen=tuple(_entries(self.webhook_spokesmen)),
            files=PemFiles(path_of(self.webhook_cert_file), path_of(self.webhook_key_file)),
            limits=self.http_limits,
        )


class RemedyFlags(WebhookFlags, AskerFlags):
    """Settings of `kubenode run remedy`."""


class DashboardFlags(Central):
    """Settings of Kube Defender's dashboard, for programs that run Kube Defender."""

    dashboard_port: int | None = Field(
        None, ge=0, le=65535, description="where the dashboard listens; 0: free; not given: none"
    )
    dashboard_address: str = Field("127.0.0.1", description="where the dashboard listens")
    dashboard_key_file: str | None = Field(
        None, description="what its cookies are sealed with, shared by replicas; else made at start"
    )
    dashboard_user_header: str = Field(
        "", pattern=HEADER, description="in which a reverse proxy names the user it has logged in"
    )
    dashboard_groups_header: str = Field(
        "", pattern=HEADER, description="in which it names the user's groups, commas between"
    )
    dashboard_proxy_addresses: str = Field(
        "", description="addresses or networks that the proxy speaks from, commas between"
    )
    dashboard_proxy_secret_file: str | None = Field(
        None, description="a secret that the proxy shows in the header X-Proxy-Secret"
    )
    dashboard_user_prefix: str = Field(
        "", description="put before the users and groups that the proxy names, such as oidc:"
    )


class ApiFlags(DashboardFlags):
    """Settings of Kube Defender's API and admission webhook, for programs that run it."""

    listen_address: str = Field("127.0.0.1", description="where Kube Defender's API listens")
    listen_port: int | None = Field(
        None, ge=0, le=65535, description="port of the API; 0: free; not given: no API"
    )
    token_file: str | None = Field(None, description="a bearer token whose bearer may ask")
    token_review: bool | None = Field(
        None, description="let the API server say whose tokens are shown; default yes"
    )
    token_audience: str = Field("", description="whom shown tokens must be made for")
    client_ca_file: str | None = Field(None, description="who signs clients' certificates")
    permit_holders: str = Field(
        "",
        pattern=r"^$|^[A-Za-z]+=[^,\s]+(,[A-Za-z]+=[^,\s]+)*$",
        description="KIND=USER, commas between: users that may ask for holders of a kind, beside"
        " the operators of the chart",
    )
    tls: bool = Field(False, description="HTTPS, with a certificate of our own authority")
    tls_cert_file: str | None = Field(None, description="HTTPS, with this certificate")
    tls_key_file: str | None = Field(None, description="its key")
    tls_service: str = Field(
        "kubenode-defender", description="Service in our namespace that leads to us"
    )
    tls_host: str | None = Field(None, description="further name or address in our certificate")
    plain_http: bool = Field(
        False, description="serve others than this host without TLS, where a mesh encrypts"
    )
    guard_port: int | None = Field(
        None, ge=0, le=65535, description="where the webhook for acts of others listens; 0: free"
    )
    guard_address: str = Field("127.0.0.1", description="where that webhook listens")
    guard_cert_file: str | None = Field(
        None, description="its certificate, which others renew; without it the program makes one"
    )
    guard_key_file: str | None = Field(None, description="the key of that certificate")
    guard_exempt: str = Field("", description="users that it leaves alone, commas between")
    guard_listed: str = Field(
        "", description="cloud controllers and autoscalers that it does not leave alone"
    )

    @property
    def names(self) -> tuple[str, ...]:
        """Return the host names for our certificate."""
        name = f"{self.tls_service}.{self.namespace}"
        more = [self.tls_host] if self.tls_host else []
        return (f"{name}.svc", name, f"{name}.svc.cluster.local", *more)

    @property
    def holder_users(self) -> dict[str, frozenset[str]]:
        return users_of(self.namespace, _entries(self.permit_holders))

    @property
    def guard_files(self) -> PemFiles:
        return PemFiles(path_of(self.guard_cert_file), path_of(self.guard_key_file))

    @property
    def guard_callers(self) -> Callers:
        return callers(self.namespace, _entries(self.guard_exempt), _entries(self.guard_listed))


class DefenderFlags(ApiFlags):
    listen_port: int | None = Field(8082, ge=0, le=65535, description="0 takes a free port")
    health_port: int = Field(8083, ge=0, le=65535, description="0 takes a free port")
    leader_address: IPvAnyAddress | None = Field(
        None, description="of our pod: Services without a selector lead there while it leads"
    )
    redis_url: str | None = Field(
        None, description="Redis that replicas and clusters share; redis+sentinel:// for Sentinel"
    )
    redis_password_file: str | None = Field(None, description="password of Redis")
    redis_ca_file: str | None = Field(None, description="authorities for rediss://")
    cluster: str | None = Field(
        None,
        min_length=1,
        max_length=63,
        pattern=CLUSTER,
        description="name of this cluster in Redis; default: the uid of namespace kube-system",
    )


class EverythingFlags(WebhookFlags, ApiFlags, PrometheusFlags, MachineMakingFlags):
    """Settings of `kubenode run all`."""


def path_of(text: str | None) -> Path | None:
    return Path(text) if text else None


def local(address: str) -> bool:
    """Return whether only this host reaches what listens at the address."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def _entries(text: str) -> list[str]:
    """Return the entries of a list separated by commas."""
    return [entry.strip() for entry in text.split(",") if entry.strip()]
