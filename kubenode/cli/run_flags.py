"""Flags of `kubenode run ...`, in the panels that `--help` shows.

A flag that is not given is None. Its KUBENODE_* variable or its default then applies
(kubenode.cli.settings).
"""

from functools import partial
from typing import Annotated

import typer

from kubenode.cli.command_group import PANEL, inherit

cluster = partial(typer.Option, rich_help_panel=PANEL, callback=inherit)
process = partial(typer.Option, rich_help_panel="Process")
telemetry = partial(typer.Option, rich_help_panel="Logs, health and metrics")
http = partial(typer.Option, rich_help_panel="Limits of every port")
asking = partial(typer.Option, rich_help_panel="Connection to Kube Defender")
webhook = partial(typer.Option, rich_help_panel="Admission webhook")
machines = partial(typer.Option, rich_help_panel="Machines and providers")
outputs = partial(typer.Option, rich_help_panel="Receivers and bundles")
doctor = partial(typer.Option, rich_help_panel="Host Doctor")
api = partial(typer.Option, rich_help_panel="Kube Defender's API")
guard = partial(typer.Option, rich_help_panel="Guard of acts of others")
dashboard = partial(typer.Option, rich_help_panel="Dashboard")
redis = partial(typer.Option, rich_help_panel="Redis")

# -- every program

Namespace = Annotated[
    str | None,
    cluster("--namespace", "-n", metavar="NAME", help="Namespace of the Leases of the program."),
]
LogLevel = Annotated[
    str | None, telemetry("--log-level", help="Log level: debug, info, warning or error.")
]
LogJson = Annotated[
    bool | None,
    telemetry(
        "--log-json/--log-text",
        help="Write logs as JSON; default: unless standard error is a terminal.",
    ),
]
HealthAddress = Annotated[str | None, telemetry("--health-address", metavar="ADDRESS")]
HealthPort = Annotated[
    int | None,
    telemetry(
        "--health-port", help="Port of /healthz, /readyz and /metrics; 0 selects a free port."
    ),
]
NoLease = Annotated[
    bool | None,
    process("--no-lease", help="Run without leader election; only for a single replica."),
]

AuditFile = Annotated[
    str | None,
    telemetry("--audit-file", metavar="FILE",
                 help="File of the audit log, as JSON lines; default: -, standard"
                 " output; '' for none."),
]  # fmt: skip
LineageFile = Annotated[
    str | None,
    process("--lineage-file", metavar="FILE",
                 help="File by which a restarted process detects a restore of etcd;"
                 " default: none."),
]  # fmt: skip
HttpReadSeconds = Annotated[
    float | None,
    http("--http-read-seconds", metavar="NUMBER",
                 help="Seconds in which a request must arrive completely; default 10."),
]  # fmt: skip
HttpConnections = Annotated[
    int | None,
    http("--http-connections", metavar="NUMBER",
                 help="Maximum number of open connections per port; 8 times as many"
                 " for Host Doctor; default 512."),
]  # fmt: skip
HttpPerAddress = Annotated[
    int | None,
    http("--http-connections-per-address", metavar="NUMBER",
                 help="Maximum number of open connections from one address; default"
                 " 256."),
]  # fmt: skip
HttpBodyBytes = Annotated[
    int | None,
    http("--http-body-bytes", metavar="NUMBER",
                 help="Maximum size of all request bodies that a port reads at the"
                 " same time; default 24 MiB."),
]  # fmt: skip
TracesUrl = Annotated[
    str | None,
    telemetry("--traces-url", metavar="URL",
                 help="URL of a collector for traces of faults, by OTLP over HTTP;"
                 " default: none."),
]  # fmt: skip

# -- those that ask Kube Defender

DefenderUrl = Annotated[
    str | None,
    asking("--defender-url", metavar="URL,...", help="URLs of the replicas of Kube Defender."),
]
DefenderTokenFile = Annotated[
    str | None,
    asking(
        "--defender-token-file",
        metavar="FILE",
        help="File with the bearer token to authenticate to Kube Defender.",
    ),
]
DefenderCaFile = Annotated[
    str | None,
    asking(
        "--defender-ca-file",
        metavar="FILE",
        help="File with the certificate authority of Kube Defender.",
    ),
]
DefenderCertFile = Annotated[
    str | None,
    asking("--defender-cert-file", metavar="FILE", help="File with the client certificate."),
]
DefenderKeyFile = Annotated[str | None, asking("--defender-key-file", metavar="FILE")]
PrometheusUrl = Annotated[
    str | None,
    machines("--prometheus-url", metavar="URL",
                 help="URL of the Prometheus server for inspections of rollouts."),
]  # fmt: skip

# -- those that check rules

WebhookPort = Annotated[
    int | None,
    webhook("--webhook-port", min=0, max=65535,
                 help="Port of the admission webhook for rules; default: no webhook."),
]  # fmt: skip
MachineWebhookPort = Annotated[
    int | None,
    webhook("--webhook-port", min=0, max=65535,
                 help="Port of the admission webhook for Machines and sets; default:"
                 " no webhook."),
]  # fmt: skip
WebhookAddress = Annotated[str | None, webhook("--webhook-address", metavar="ADDRESS")]
WebhookService = Annotated[str | None, webhook("--webhook-service", help="Service of the webhook.")]
WebhookHost = Annotated[
    str | None,
    webhook("--webhook-host", help="Additional name or address in the certificate of the webhook."),
]
WebhookCertFile = Annotated[
    str | None,
    webhook(
        "--webhook-cert-file", help="File with the certificate; it is read again when it changes."
    ),
]
WebhookKeyFile = Annotated[
    str | None,
    webhook("--webhook-key-file", help="File with the private key of --webhook-cert-file."),
]
WebhookMaxMatching = Annotated[
    str | None,
    webhook("--webhook-max-matching", metavar="SHARE",
                 help="Maximum number of nodes that a new rule in Enforce may match;"
                 " default 10%."),
]  # fmt: skip
NodeKeys = Annotated[
    str | None,
    webhook("--node-keys", metavar="KEY,...",
                 help="Labels and annotations that rules may set on Nodes; default"
                 " kubenode.io/suspect and kubenode.io/suspect-*."),
]  # fmt: skip
DisruptiveNodeKeys = Annotated[
    str | None,
    webhook("--disruptive-node-keys", metavar="KEY,...",
                 help="Additional keys that only rungs of class Pods or Node may set."),
]  # fmt: skip

WebhookSpokesmen = Annotated[
    str | None,
    webhook("--webhook-spokesmen", metavar="USER,...",
                 help="Users, such as a chat bot, that may record decisions of other"
                 " people."),
]  # fmt: skip
ProvidersFile = Annotated[
    str | None,
    machines("--providers-file", metavar="FILE",
                 help="File with the providers that control the machines."),
]  # fmt: skip
JoinServer = Annotated[
    str | None,
    machines("--join-server", metavar="URL",
                 help="URL of the API server for new machines; default: that of this"
                 " program."),
]  # fmt: skip
AgentPackage = Annotated[
    str | None,
    machines("--agent-package", metavar="URL#sha256=DIGEST",
                 help="URL of the agent for new machines; default: the agent is in"
                 " their image."),
]  # fmt: skip
ClusterOfMachines = Annotated[
    str | None,
    machines(
        "--cluster",
        help="Cluster name in the tags of machines; default: UID of namespace kube-system.",
    ),
]
ReceiversFile = Annotated[
    str | None,
    outputs("--receivers-file", metavar="FILE",
                 help="File with the receivers of notifications and handovers."),
]  # fmt: skip

HostDoctorPort = Annotated[
    int | None,
    doctor("--host-doctor-port", min=0, max=65535,
                 help="Port of Host Doctor, which receives alerts and events about"
                 " hosts; default: none."),
]  # fmt: skip
HostDoctorAddress = Annotated[str | None, doctor("--host-doctor-address", metavar="ADDRESS")]
HostDoctorTokenFiles = Annotated[
    str | None,
    doctor("--host-doctor-token-files", metavar="FILE,...",
                 help="File with the bearer tokens of senders, one per line."),
]  # fmt: skip
HostDoctorTokenAudience = Annotated[
    str | None,
    doctor("--host-doctor-token-audience",
                 help="Audience of the service account tokens of agents."),
]  # fmt: skip
HostDoctorClientCaFile = Annotated[
    str | None,
    doctor("--host-doctor-client-ca-file", metavar="FILE",
                 help="File with the certificate authority of agents and other"
                 " clients."),
]  # fmt: skip
HostDoctorClients = Annotated[
    str | None,
    doctor("--host-doctor-clients", metavar="NAME,...",
                 help="Common names of clients other than agents."),
]  # fmt: skip
HostDoctorCertFile = Annotated[str | None, doctor("--host-doctor-cert-file", metavar="FILE")]
HostDoctorKeyFile = Annotated[str | None, doctor("--host-doctor-key-file", metavar="FILE")]
HostDoctorService = Annotated[
    str | None, doctor("--host-doctor-service", help="Service of the webhook.")
]
HostDoctorHost = Annotated[
    str | None,
    doctor(
        "--host-doctor-host", help="Additional name or address in the certificate of the webhook."
    ),
]
HostDoctorPlainHttp = Annotated[
    bool | None,
    doctor("--host-doctor-plain-http/--no-host-doctor-plain-http",
                 help="Serve without TLS, where a service mesh encrypts."),
]  # fmt: skip
Bundles = Annotated[
    str | None,
    outputs("--bundles", metavar="PLACE",
                 help="Store for diagnostics of hosts: a folder or"
                 " s3://BUCKET/PREFIX."),
]  # fmt: skip
BundlesEndpoint = Annotated[
    str | None,
    outputs("--bundles-endpoint", metavar="URL", help="URL of an S3 service other than AWS."),
]

# -- those that run Kube Defender

ListenAddress = Annotated[
    str | None,
    api("--listen-address", metavar="ADDRESS", help="Address of the API; default 127.0.0.1."),
]
ListenPort = Annotated[
    int | None,
    api("--listen-port", min=0, max=65535, help="Port of the API; 0 selects a free port."),
]
TokenFile = Annotated[
    str | None,
    api("--token-file", metavar="FILE", help="File with a bearer token that clients may use."),
]
TokenReview = Annotated[
    bool | None,
    api("--token-review/--no-token-review",
                 help="Validate bearer tokens by TokenReview; default: yes."),
]  # fmt: skip
TokenAudience = Annotated[
    str | None, api("--token-audience", help="Audience that a bearer token must have.")
]
PermitHolders = Annotated[
    str | None,
    api("--permit-holders", metavar="KIND=USER",
                 help="Additional users that may request permits for holders of a"
                 " kind, separated by commas."),
]  # fmt: skip
ClientCaFile = Annotated[
    str | None,
    api("--client-ca-file", metavar="FILE", help="File with the certificate authority of clients."),
]
Tls = Annotated[
    bool | None,
    api(
        "--tls/--no-tls",
        help="Serve HTTPS with a certificate of an authority that the program creates.",
    ),
]
TlsCertFile = Annotated[str | None, api("--tls-cert-file", metavar="FILE")]
TlsKeyFile = Annotated[str | None, api("--tls-key-file", metavar="FILE")]
TlsService = Annotated[str | None, api("--tls-service", help="Service of the API and the webhook.")]
TlsHost = Annotated[
    str | None, api("--tls-host", help="Additional name or address in the certificate.")
]
PlainHttp = Annotated[
    bool | None,
    api("--plain-http/--no-plain-http",
                 help="Serve other hosts without TLS, where a service mesh encrypts."),
]  # fmt: skip
GuardPort = Annotated[
    int | None,
    guard("--guard-port", min=0, max=65535,
                 help="Port of the admission webhook that holds the acts of other"
                 " clients to the budget; default: none."),
]  # fmt: skip
GuardAddress = Annotated[str | None, guard("--guard-address", metavar="ADDRESS")]
GuardCertFile = Annotated[
    str | None,
    guard("--guard-cert-file", help="File with the certificate; it is read again when it changes."),
]
GuardKeyFile = Annotated[
    str | None, guard("--guard-key-file", help="File with the private key of --guard-cert-file.")
]
GuardExempt = Annotated[
    str | None,
    guard(
        "--guard-exempt",
        metavar="USER,...",
        help="Additional users whose acts the webhook always allows.",
    ),
]
GuardListed = Annotated[
    str | None,
    guard("--guard-listed", metavar="USER,...",
                 help="Cloud controllers and autoscalers whose acts the webhook"
                 " checks."),
]  # fmt: skip

LeaderAddress = Annotated[
    str | None,
    api("--leader-address", metavar="ADDRESS",
                 help="IP address of the pod; Services without a selector point to"
                 " it while it leads."),
]  # fmt: skip

DashboardPort = Annotated[
    int | None,
    dashboard("--dashboard-port", min=0, max=65535,
                 help="Port of the dashboard; 0 selects a free port; default: no"
                 " dashboard."),
]  # fmt: skip
DashboardAddress = Annotated[str | None, dashboard("--dashboard-address", metavar="ADDRESS")]
DashboardKeyFile = Annotated[
    str | None,
    dashboard("--dashboard-key-file", metavar="FILE",
                 help="File with the key that seals cookies of the dashboard; shared"
                 " by replicas."),
]  # fmt: skip
DashboardUserHeader = Annotated[
    str | None,
    dashboard("--dashboard-user-header", metavar="HEADER",
                 help="Header in which a reverse proxy names the authenticated user."),
]  # fmt: skip
DashboardGroupsHeader = Annotated[
    str | None,
    dashboard(
        "--dashboard-groups-header",
        metavar="HEADER",
        help="Header in which the reverse proxy names the groups of the user.",
    ),
]
DashboardProxyAddresses = Annotated[
    str | None,
    dashboard("--dashboard-proxy-addresses", metavar="NETWORK,...",
                 help="Addresses of the reverse proxy."),
]  # fmt: skip
DashboardProxySecretFile = Annotated[
    str | None,
    dashboard("--dashboard-proxy-secret-file", metavar="FILE",
                 help="File with the secret that the reverse proxy sends in the"
                 " header X-Proxy-Secret."),
]  # fmt: skip
DashboardUserPrefix = Annotated[
    str | None,
    dashboard("--dashboard-user-prefix", metavar="PREFIX",
                 help="Prefix of the users and groups that the reverse proxy names,"
                 " such as oidc:"),
]  # fmt: skip

RedisUrl = Annotated[
    str | None,
    redis("--redis-url", metavar="URL", help="URL of the Redis that replicas and clusters share."),
]
RedisPasswordFile = Annotated[str | None, redis("--redis-password-file", metavar="FILE")]
RedisCaFile = Annotated[
    str | None,
    redis(
        "--redis-ca-file", metavar="FILE", help="File with the certificate authority for rediss://."
    ),
]
Cluster = Annotated[
    str | None, redis("--cluster", help="Name of this cluster in Redis; default: a UID.")
]
