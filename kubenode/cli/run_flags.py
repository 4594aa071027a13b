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
    str | None, cluster("--namespace", "-n", metavar="NAME", help="Namespace of our Leases.")
]
LogLevel = Annotated[str | None, telemetry("--log-level", help="debug, info, warning, error.")]
LogJson = Annotated[
    bool | None, telemetry("--log-json/--log-text", help="JSON logs; default: if no terminal.")
]
HealthAddress = Annotated[str | None, telemetry("--health-address", metavar="ADDRESS")]
HealthPort = Annotated[
    int | None,
    telemetry("--health-port", help="/healthz, /readyz, /metrics; 0 takes a free port."),
]
NoLease = Annotated[
    bool | None,
    process("--no-lease", help="Elect no leader: only where nobody else runs the same."),
]

AuditFile = Annotated[
    str | None,
    telemetry("--audit-file", metavar="FILE",
                 help="Acts and refusals as JSON lines; default -, standard output; '' for none."),
]  # fmt: skip
LineageFile = Annotated[
    str | None,
    process("--lineage-file", metavar="FILE",
                 help="By it a restarted process notices a restore of etcd; default: none."),
]  # fmt: skip
HttpReadSeconds = Annotated[
    float | None,
    http("--http-read-seconds", metavar="NUMBER",
                 help="In which a request must arrive at any of our ports; default 10."),
]  # fmt: skip
HttpConnections = Annotated[
    int | None,
    http("--http-connections", metavar="NUMBER",
                 help="Open at each port at once; Host Doctor has 8 times it; default 512."),
]  # fmt: skip
HttpPerAddress = Annotated[
    int | None,
    http("--http-connections-per-address", metavar="NUMBER",
                 help="Of these, from one address; default 256."),
]  # fmt: skip
HttpBodyBytes = Annotated[
    int | None,
    http("--http-body-bytes", metavar="NUMBER",
                 help="Of all bodies that a port takes in at once; default 24 MiB."),
]  # fmt: skip
TracesUrl = Annotated[
    str | None,
    telemetry("--traces-url", metavar="URL",
                 help="Tell a collector of every fault's way, by OTLP over HTTP; default: none."),
]  # fmt: skip

# -- those that ask Kube Defender

DefenderUrl = Annotated[
    str | None,
    asking("--defender-url", metavar="URL,...", help="Of Kube Defender's replicas."),
]
DefenderTokenFile = Annotated[
    str | None, asking("--defender-token-file", metavar="FILE", help="Our bearer token.")
]
DefenderCaFile = Annotated[
    str | None,
    asking("--defender-ca-file", metavar="FILE", help="Who signs its certificate."),
]
DefenderCertFile = Annotated[
    str | None, asking("--defender-cert-file", metavar="FILE", help="Our certificate.")
]
DefenderKeyFile = Annotated[str | None, asking("--defender-key-file", metavar="FILE")]
PrometheusUrl = Annotated[
    str | None,
    machines("--prometheus-url", metavar="URL",
                 help="The Prometheus that inspections of rollouts ask."),
]  # fmt: skip

# -- those that check rules

WebhookPort = Annotated[
    int | None,
    webhook("--webhook-port", min=0, max=65535,
                 help="Check rules at admission, on this port; not given: no webhook."),
]  # fmt: skip
MachineWebhookPort = Annotated[
    int | None,
    webhook("--webhook-port", min=0, max=65535,
                 help="Check Machines and sets at admission, on this port; not given: no webhook."),
]  # fmt: skip
WebhookAddress = Annotated[str | None, webhook("--webhook-address", metavar="ADDRESS")]
WebhookService = Annotated[
    str | None, webhook("--webhook-service", help="Service that leads to it.")
]
WebhookHost = Annotated[
    str | None, webhook("--webhook-host", help="Further name or address in its certificate.")
]
WebhookCertFile = Annotated[
    str | None,
    webhook("--webhook-cert-file", help="Its certificate, read again when it changes."),
]
WebhookKeyFile = Annotated[
    str | None, webhook("--webhook-key-file", help="The key of --webhook-cert-file.")
]
WebhookMaxMatching = Annotated[
    str | None,
    webhook("--webhook-max-matching", metavar="SHARE",
                 help="Nodes that a new rule in Enforce may match at once; default 10%."),
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
                 help="Further ones, which only rungs of class Pods or Node may set."),
]  # fmt: skip

WebhookSpokesmen = Annotated[
    str | None,
    webhook("--webhook-spokesmen", metavar="USER,...",
                 help="Users, as of a chat bot, whose words about jobs may be another's."),
]  # fmt: skip
ProvidersFile = Annotated[
    str | None,
    machines("--providers-file", metavar="FILE",
                 help="Who runs the machines, and can switch them."),
]  # fmt: skip
JoinServer = Annotated[
    str | None,
    machines("--join-server", metavar="URL",
                 help="The API server as machines that are made reach it; default: as we do."),
]  # fmt: skip
AgentPackage = Annotated[
    str | None,
    machines("--agent-package", metavar="URL#sha256=DIGEST",
                 help="Where machines that are made find the agent; default: in their image."),
]  # fmt: skip
ClusterOfMachines = Annotated[
    str | None,
    machines("--cluster", help="Name on the machines' tags; default: uid of kube-system."),
]
ReceiversFile = Annotated[
    str | None,
    outputs("--receivers-file", metavar="FILE",
                 help="Whom jobs may tell, and what they may hand over to."),
]  # fmt: skip

HostDoctorPort = Annotated[
    int | None,
    doctor("--host-doctor-port", min=0, max=65535,
                 help="Take alerts and events about hosts, on this port; not given: none."),
]  # fmt: skip
HostDoctorAddress = Annotated[str | None, doctor("--host-doctor-address", metavar="ADDRESS")]
HostDoctorTokenFiles = Annotated[
    str | None,
    doctor("--host-doctor-token-files", metavar="FILE,...",
                 help="Bearer tokens, a line each, of those that may tell it something."),
]  # fmt: skip
HostDoctorTokenAudience = Annotated[
    str | None,
    doctor("--host-doctor-token-audience",
                 help="Whom tokens of agents' service accounts must be made for."),
]  # fmt: skip
HostDoctorClientCaFile = Annotated[
    str | None,
    doctor("--host-doctor-client-ca-file", metavar="FILE",
                 help="Who signs the certificates of agents and other clients."),
]  # fmt: skip
HostDoctorClients = Annotated[
    str | None,
    doctor("--host-doctor-clients", metavar="NAME,...",
                 help="Common names of clients beside agents."),
]  # fmt: skip
HostDoctorCertFile = Annotated[str | None, doctor("--host-doctor-cert-file", metavar="FILE")]
HostDoctorKeyFile = Annotated[str | None, doctor("--host-doctor-key-file", metavar="FILE")]
HostDoctorService = Annotated[
    str | None, doctor("--host-doctor-service", help="Service that leads to it.")
]
HostDoctorHost = Annotated[
    str | None,
    doctor("--host-doctor-host", help="Further name or address in its certificate."),
]
HostDoctorPlainHttp = Annotated[
    bool | None,
    doctor("--host-doctor-plain-http/--no-host-doctor-plain-http",
                 help="Without TLS, where a mesh encrypts."),
]  # fmt: skip
Bundles = Annotated[
    str | None,
    outputs("--bundles", metavar="PLACE",
                 help="Where diagnostics of hosts are kept: a folder or s3://BUCKET/PREFIX."),
]  # fmt: skip
BundlesEndpoint = Annotated[
    str | None,
    outputs("--bundles-endpoint", metavar="URL", help="Another S3 service than AWS."),
]

# -- those that run Kube Defender

ListenAddress = Annotated[
    str | None,
    api("--listen-address", metavar="ADDRESS", help="Of the API; default 127.0.0.1."),
]
ListenPort = Annotated[
    int | None,
    api("--listen-port", min=0, max=65535, help="Of the API; 0 takes a free port."),
]
TokenFile = Annotated[
    str | None,
    api("--token-file", metavar="FILE", help="A bearer token whose bearer may ask."),
]
TokenReview = Annotated[
    bool | None,
    api("--token-review/--no-token-review",
                 help="Let the API server say whose tokens are shown; default yes."),
]  # fmt: skip
TokenAudience = Annotated[
    str | None, api("--token-audience", help="Whom shown tokens must be made for.")
]
PermitHolders = Annotated[
    str | None,
    api("--permit-holders", metavar="KIND=USER",
                 help="Further users that may ask for holders of a kind, commas between."),
]  # fmt: skip
ClientCaFile = Annotated[
    str | None,
    api("--client-ca-file", metavar="FILE", help="Who signs clients' certificates."),
]
Tls = Annotated[
    bool | None,
    api("--tls/--no-tls", help="HTTPS, with a certificate of our own authority."),
]
TlsCertFile = Annotated[str | None, api("--tls-cert-file", metavar="FILE")]
TlsKeyFile = Annotated[str | None, api("--tls-key-file", metavar="FILE")]
TlsService = Annotated[
    str | None, api("--tls-service", help="Service that leads to the API and webhook.")
]
TlsHost = Annotated[
    str | None, api("--tls-host", help="Further name or address in our certificate.")
]
PlainHttp = Annotated[
    bool | None,
    api("--plain-http/--no-plain-http",
                 help="Serve others than this host without TLS, where a mesh encrypts."),
]  # fmt: skip
GuardPort = Annotated[
    int | None,
    guard("--guard-port", min=0, max=65535,
                 help="Hold acts of others to the budget, asked on this port; not given: none."),
]  # fmt: skip
GuardAddress = Annotated[str | None, guard("--guard-address", metavar="ADDRESS")]
GuardCertFile = Annotated[
    str | None,
    guard("--guard-cert-file", help="Its certificate, read again when it changes."),
]
GuardKeyFile = Annotated[
    str | None, guard("--guard-key-file", help="The key of --guard-cert-file.")
]
GuardExempt = Annotated[
    str | None,
    guard("--guard-exempt", metavar="USER,...", help="Users that are left alone too."),
]
GuardListed = Annotated[
    str | None,
    guard("--guard-listed", metavar="USER,...",
                 help="Cloud controllers and autoscalers that are not left alone."),
]  # fmt: skip

LeaderAddress = Annotated[
    str | None,
    api("--leader-address", metavar="ADDRESS",
                 help="Of our pod; Services without a selector lead there while it leads."),
]  # fmt: skip

DashboardPort = Annotated[
    int | None,
    dashboard("--dashboard-port", min=0, max=65535,
                 help="Serve the dashboard on this port; 0: a free one; not given: none."),
]  # fmt: skip
DashboardAddress = Annotated[str | None, dashboard("--dashboard-address", metavar="ADDRESS")]
DashboardKeyFile = Annotated[
    str | None,
    dashboard("--dashboard-key-file", metavar="FILE",
                 help="What its cookies are sealed with, shared by replicas."),
]  # fmt: skip
DashboardUserHeader = Annotated[
    str | None,
    dashboard("--dashboard-user-header", metavar="HEADER",
                 help="In which a reverse proxy names the user that it has logged in."),
]  # fmt: skip
DashboardGroupsHeader = Annotated[
    str | None,
    dashboard("--dashboard-groups-header", metavar="HEADER", help="And the user's groups."),
]
DashboardProxyAddresses = Annotated[
    str | None,
    dashboard("--dashboard-proxy-addresses", metavar="NETWORK,...",
                 help="Where that proxy speaks from."),
]  # fmt: skip
DashboardProxySecretFile = Annotated[
    str | None,
    dashboard("--dashboard-proxy-secret-file", metavar="FILE",
                 help="What it shows in the header X-Proxy-Secret."),
]  # fmt: skip
DashboardUserPrefix = Annotated[
    str | None,
    dashboard("--dashboard-user-prefix", metavar="PREFIX",
                 help="Put before the users and groups that it names, such as oidc:"),
]  # fmt: skip

RedisUrl = Annotated[
    str | None,
    redis("--redis-url", metavar="URL", help="Redis that replicas and clusters share."),
]
RedisPasswordFile = Annotated[str | None, redis("--redis-password-file", metavar="FILE")]
RedisCaFile = Annotated[str | None, redis("--redis-ca-file", metavar="FILE", help="For rediss://.")]
Cluster = Annotated[
    str | None, redis("--cluster", help="Name of this cluster in Redis; default: a uid.")
]
