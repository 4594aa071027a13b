"""`kubenode run ...`: the programs and their flags.

A flag that is not given is None here. Its KUBENODE_* variable or its default then applies
(kubenode.cli.settings).
"""

from typing import Annotated

import typer

from kubenode.cli.options import Context, Kubeconfig

run_app = typer.Typer(
    no_args_is_help=True, help="Run a program of KubeNode until it is told to stop."
)

# -- every program

Namespace = Annotated[str | None, typer.Option("--namespace", help="Where our Leases live.")]
LogLevel = Annotated[str | None, typer.Option("--log-level", help="debug, info, warning, error.")]
LogJson = Annotated[
    bool | None, typer.Option("--log-json/--log-text", help="JSON logs; default: if no terminal.")
]
HealthAddress = Annotated[str | None, typer.Option("--health-address", metavar="ADDRESS")]
HealthPort = Annotated[
    int | None,
    typer.Option("--health-port", help="/healthz, /readyz, /metrics; 0 takes a free port."),
]
NoLease = Annotated[
    bool | None,
    typer.Option("--no-lease", help="Elect no leader: only where nobody else runs the same."),
]

AuditFile = Annotated[
    str | None,
    typer.Option("--audit-file", metavar="FILE",
                 help="Acts and refusals as JSON lines; default -, standard output; '' for none."),
]  # fmt: skip
LineageFile = Annotated[
    str | None,
    typer.Option("--lineage-file", metavar="FILE",
                 help="By it a restarted process notices a restore of etcd; default: none."),
]  # fmt: skip
HttpReadSeconds = Annotated[
    float | None,
    typer.Option("--http-read-seconds", metavar="NUMBER",
                 help="In which a request must arrive at any of our ports; default 10."),
]  # fmt: skip
HttpConnections = Annotated[
    int | None,
    typer.Option("--http-connections", metavar="NUMBER",
                 help="Open at each port at once; Host Doctor has 8 times it; default 512."),
]  # fmt: skip
HttpPerAddress = Annotated[
    int | None,
    typer.Option("--http-connections-per-address", metavar="NUMBER",
                 help="Of these, from one address; default 256."),
]  # fmt: skip
HttpBodyBytes = Annotated[
    int | None,
    typer.Option("--http-body-bytes", metavar="NUMBER",
                 help="Of all bodies that a port takes in at once; default 24 MiB."),
]  # fmt: skip
TracesUrl = Annotated[
    str | None,
    typer.Option("--traces-url", metavar="URL",
                 help="Tell a collector of every fault's way, by OTLP over HTTP; default: none."),
]  # fmt: skip

# -- those that ask Kube Defender

DefenderUrl = Annotated[
    str | None,
    typer.Option("--defender-url", metavar="URL,...", help="Of Kube Defender's replicas."),
]
DefenderTokenFile = Annotated[
    str | None, typer.Option("--defender-token-file", metavar="FILE", help="Our bearer token.")
]
DefenderCaFile = Annotated[
    str | None,
    typer.Option("--defender-ca-file", metavar="FILE", help="Who signs its certificate."),
]
DefenderCertFile = Annotated[
    str | None, typer.Option("--defender-cert-file", metavar="FILE", help="Our certificate.")
]
DefenderKeyFile = Annotated[str | None, typer.Option("--defender-key-file", metavar="FILE")]
PrometheusUrl = Annotated[
    str | None,
    typer.Option("--prometheus-url", metavar="URL",
                 help="The Prometheus that inspections of rollouts ask."),
]  # fmt: skip

# -- those that check rules

WebhookPort = Annotated[
    int | None,
    typer.Option("--webhook-port", min=0, max=65535,
                 help="Check rules at admission, on this port; not given: no webhook."),
]  # fmt: skip
MachineWebhookPort = Annotated[
    int | None,
    typer.Option("--webhook-port", min=0, max=65535,
                 help="Check Machines and sets at admission, on this port; not given: no webhook."),
]  # fmt: skip
WebhookAddress = Annotated[str | None, typer.Option("--webhook-address", metavar="ADDRESS")]
WebhookService = Annotated[
    str | None, typer.Option("--webhook-service", help="Service that leads to it.")
]
WebhookHost = Annotated[
    str | None, typer.Option("--webhook-host", help="Further name or address in its certificate.")
]
WebhookCertFile = Annotated[
    str | None,
    typer.Option("--webhook-cert-file", help="Its certificate, read again when it changes."),
]
WebhookKeyFile = Annotated[
    str | None, typer.Option("--webhook-key-file", help="The key of --webhook-cert-file.")
]
WebhookMaxMatching = Annotated[
    str | None,
    typer.Option("--webhook-max-matching", metavar="SHARE",
                 help="Nodes that a new rule in Enforce may match at once; default 10%."),
]  # fmt: skip
NodeKeys = Annotated[
    str | None,
    typer.Option("--node-keys", metavar="KEY,...",
                 help="Labels and annotations that rules may set on Nodes; default"
                 " kubenode.io/suspect and kubenode.io/suspect-*."),
]  # fmt: skip
DisruptiveNodeKeys = Annotated[
    str | None,
    typer.Option("--disruptive-node-keys", metavar="KEY,...",
                 help="Further ones, which only rungs of class Pods or Node may set."),
]  # fmt: skip

WebhookSpokesmen = Annotated[
    str | None,
    typer.Option("--webhook-spokesmen", metavar="USER,...",
                 help="Users, as of a chat bot, whose words about jobs may be another's."),
]  # fmt: skip
ProvidersFile = Annotated[
    str | None,
    typer.Option("--providers-file", metavar="FILE",
                 help="Who runs the machines, and can switch them."),
]  # fmt: skip
JoinServer = Annotated[
    str | None,
    typer.Option("--join-server", metavar="URL",
                 help="The API server as machines that are made reach it; default: as we do."),
]  # fmt: skip
AgentPackage = Annotated[
    str | None,
    typer.Option("--agent-package", metavar="URL#sha256=DIGEST",
                 help="Where machines that are made find the agent; default: in their image."),
]  # fmt: skip
ClusterOfMachines = Annotated[
    str | None,
    typer.Option("--cluster", help="Name on the machines' tags; default: uid of kube-system."),
]
ReceiversFile = Annotated[
    str | None,
    typer.Option("--receivers-file", metavar="FILE",
                 help="Whom jobs may tell, and what they may hand over to."),
]  # fmt: skip

HostDoctorPort = Annotated[
    int | None,
    typer.Option("--host-doctor-port", min=0, max=65535,
                 help="Take alerts and events about hosts, on this port; not given: none."),
]  # fmt: skip
HostDoctorAddress = Annotated[str | None, typer.Option("--host-doctor-address", metavar="ADDRESS")]
HostDoctorTokenFiles = Annotated[
    str | None,
    typer.Option("--host-doctor-token-files", metavar="FILE,...",
                 help="Bearer tokens, a line each, of those that may tell it something."),
]  # fmt: skip
HostDoctorTokenAudience = Annotated[
    str | None,
    typer.Option("--host-doctor-token-audience",
                 help="Whom tokens of agents' service accounts must be made for."),
]  # fmt: skip
HostDoctorClientCaFile = Annotated[
    str | None,
    typer.Option("--host-doctor-client-ca-file", metavar="FILE",
                 help="Who signs the certificates of agents and other clients."),
]  # fmt: skip
HostDoctorClients = Annotated[
    str | None,
    typer.Option("--host-doctor-clients", metavar="NAME,...",
                 help="Common names of clients beside agents."),
]  # fmt: skip
HostDoctorCertFile = Annotated[str | None, typer.Option("--host-doctor-cert-file", metavar="FILE")]
HostDoctorKeyFile = Annotated[str | None, typer.Option("--host-doctor-key-file", metavar="FILE")]
HostDoctorService = Annotated[
    str | None, typer.Option("--host-doctor-service", help="Service that leads to it.")
]
HostDoctorHost = Annotated[
    str | None,
    typer.Option("--host-doctor-host", help="Further name or address in its certificate."),
]
HostDoctorPlainHttp = Annotated[
    bool | None,
    typer.Option("--host-doctor-plain-http/--no-host-doctor-plain-http",
                 help="Without TLS, where a mesh encrypts."),
]  # fmt: skip
Bundles = Annotated[
    str | None,
    typer.Option("--bundles", metavar="PLACE",
                 help="Where diagnostics of hosts are kept: a folder or s3://BUCKET/PREFIX."),
]  # fmt: skip
BundlesEndpoint = Annotated[
    str | None,
    typer.Option("--bundles-endpoint", metavar="URL", help="Another S3 service than AWS."),
]

# -- those that run Kube Defender

ListenAddress = Annotated[
    str | None,
    typer.Option("--listen-address", metavar="ADDRESS", help="Of the API; default 127.0.0.1."),
]
ListenPort = Annotated[
    int | None,
    typer.Option("--listen-port", min=0, max=65535, help="Of the API; 0 takes a free port."),
]
TokenFile = Annotated[
    str | None,
    typer.Option("--token-file", metavar="FILE", help="A bearer token whose bearer may ask."),
]
TokenReview = Annotated[
    bool | None,
    typer.Option("--token-review/--no-token-review",
                 help="Let the API server say whose tokens are shown; default yes."),
]  # fmt: skip
TokenAudience = Annotated[
    str | None, typer.Option("--token-audience", help="Whom shown tokens must be made for.")
]
PermitHolders = Annotated[
    str | None,
    typer.Option("--permit-holders", metavar="KIND=USER",
                 help="Further users that may ask for holders of a kind, commas between."),
]  # fmt: skip
ClientCaFile = Annotated[
    str | None,
    typer.Option("--client-ca-file", metavar="FILE", help="Who signs clients' certificates."),
]
Tls = Annotated[
    bool | None,
    typer.Option("--tls/--no-tls", help="HTTPS, with a certificate of our own authority."),
]
TlsCertFile = Annotated[str | None, typer.Option("--tls-cert-file", metavar="FILE")]
TlsKeyFile = Annotated[str | None, typer.Option("--tls-key-file", metavar="FILE")]
TlsService = Annotated[
    str | None, typer.Option("--tls-service", help="Service that leads to the API and webhook.")
]
TlsHost = Annotated[
    str | None, typer.Option("--tls-host", help="Further name or address in our certificate.")
]
PlainHttp = Annotated[
    bool | None,
    typer.Option("--plain-http/--no-plain-http",
                 help="Serve others than this host without TLS, where a mesh encrypts."),
]  # fmt: skip
GuardPort = Annotated[
    int | None,
    typer.Option("--guard-port", min=0, max=65535,
                 help="Hold acts of others to the budget, asked on this port; not given: none."),
]  # fmt: skip
GuardAddress = Annotated[str | None, typer.Option("--guard-address", metavar="ADDRESS")]
GuardCertFile = Annotated[
    str | None,
    typer.Option("--guard-cert-file", help="Its certificate, read again when it changes."),
]
GuardKeyFile = Annotated[
    str | None, typer.Option("--guard-key-file", help="The key of --guard-cert-file.")
]
GuardExempt = Annotated[
    str | None,
    typer.Option("--guard-exempt", metavar="USER,...", help="Users that are left alone too."),
]
GuardListed = Annotated[
    str | None,
    typer.Option("--guard-listed", metavar="USER,...",
                 help="Cloud controllers and autoscalers that are not left alone."),
]  # fmt: skip

LeaderAddress = Annotated[
    str | None,
    typer.Option("--leader-address", metavar="ADDRESS",
                 help="Of our pod; Services without a selector lead there while it leads."),
]  # fmt: skip

DashboardPort = Annotated[
    int | None,
    typer.Option("--dashboard-port", min=0, max=65535,
                 help="Serve the dashboard on this port; 0: a free one; not given: none."),
]  # fmt: skip
DashboardAddress = Annotated[str | None, typer.Option("--dashboard-address", metavar="ADDRESS")]
DashboardKeyFile = Annotated[
    str | None,
    typer.Option("--dashboard-key-file", metavar="FILE",
                 help="What its cookies are sealed with, shared by replicas."),
]  # fmt: skip
DashboardUserHeader = Annotated[
    str | None,
    typer.Option("--dashboard-user-header", metavar="HEADER",
                 help="In which a reverse proxy names the user that it has logged in."),
]  # fmt: skip
DashboardGroupsHeader = Annotated[
    str | None,
    typer.Option("--dashboard-groups-header", metavar="HEADER", help="And the user's groups."),
]
DashboardProxyAddresses = Annotated[
    str | None,
    typer.Option("--dashboard-proxy-addresses", metavar="NETWORK,...",
                 help="Where that proxy speaks from."),
]  # fmt: skip
DashboardProxySecretFile = Annotated[
    str | None,
    typer.Option("--dashboard-proxy-secret-file", metavar="FILE",
                 help="What it shows in the header X-Proxy-Secret."),
]  # fmt: skip
DashboardUserPrefix = Annotated[
    str | None,
    typer.Option("--dashboard-user-prefix", metavar="PREFIX",
                 help="Put before the users and groups that it names, such as oidc:"),
]  # fmt: skip

RedisUrl = Annotated[
    str | None,
    typer.Option("--redis-url", metavar="URL", help="Redis that replicas and clusters share."),
]
RedisPasswordFile = Annotated[str | None, typer.Option("--redis-password-file", metavar="FILE")]
RedisCaFile = Annotated[
    str | None, typer.Option("--redis-ca-file", metavar="FILE", help="For rediss://.")
]
Cluster = Annotated[
    str | None, typer.Option("--cluster", help="Name of this cluster in Redis; default: a uid.")
]


@run_app.command("all")
def run_all(
    ctx: typer.Context,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = None,
    log_level: LogLevel = None,
    log_json: LogJson = None,
    health_address: HealthAddress = None,
    health_port: HealthPort = None,
    no_lease: NoLease = None,
    audit_file: AuditFile = None,
    lineage_file: LineageFile = None,
    traces_url: TracesUrl = None,
    http_read_seconds: HttpReadSeconds = None,
    http_connections: HttpConnections = None,
    http_connections_per_address: HttpPerAddress = None,
    http_body_bytes: HttpBodyBytes = None,
    webhook_port: WebhookPort = None,
    webhook_address: WebhookAddress = None,
    webhook_service: WebhookService = None,
    webhook_host: WebhookHost = None,
    webhook_cert_file: WebhookCertFile = None,
    webhook_key_file: WebhookKeyFile = None,
    webhook_max_matching: WebhookMaxMatching = None,
    node_keys: NodeKeys = None,
    disruptive_node_keys: DisruptiveNodeKeys = None,
    providers_file: ProvidersFile = None,
    receivers_file: ReceiversFile = None,
    webhook_spokesmen: WebhookSpokesmen = None,
    host_doctor_port: HostDoctorPort = None,
    host_doctor_address: HostDoctorAddress = None,
    host_doctor_token_files: HostDoctorTokenFiles = None,
    host_doctor_token_audience: HostDoctorTokenAudience = None,
    host_doctor_client_ca_file: HostDoctorClientCaFile = None,
    host_doctor_clients: HostDoctorClients = None,
    host_doctor_cert_file: HostDoctorCertFile = None,
    host_doctor_key_file: HostDoctorKeyFile = None,
    host_doctor_service: HostDoctorService = None,
    host_doctor_host: HostDoctorHost = None,
    host_doctor_plain_http: HostDoctorPlainHttp = None,
    bundles: Bundles = None,
    bundles_endpoint: BundlesEndpoint = None,
    listen_address: ListenAddress = None,
    listen_port: ListenPort = None,
    token_file: TokenFile = None,
    token_review: TokenReview = None,
    token_audience: TokenAudience = None,
    client_ca_file: ClientCaFile = None,
    permit_holders: PermitHolders = None,
    tls: Tls = None,
    tls_cert_file: TlsCertFile = None,
    tls_key_file: TlsKeyFile = None,
    tls_service: TlsService = None,
    tls_host: TlsHost = None,
    plain_http: PlainHttp = None,
    guard_port: GuardPort = None,
    guard_address: GuardAddress = None,
    guard_cert_file: GuardCertFile = None,
    guard_key_file: GuardKeyFile = None,
    guard_exempt: GuardExempt = None,
    guard_listed: GuardListed = None,
    dashboard_port: DashboardPort = None,
    dashboard_address: DashboardAddress = None,
    dashboard_key_file: DashboardKeyFile = None,
    dashboard_user_header: DashboardUserHeader = None,
    dashboard_groups_header: DashboardGroupsHeader = None,
    dashboard_proxy_addresses: DashboardProxyAddresses = None,
    dashboard_proxy_secret_file: DashboardProxySecretFile = None,
    dashboard_user_prefix: DashboardUserPrefix = None,
    prometheus_url: PrometheusUrl = None,
    cluster: ClusterOfMachines = None,
    join_server: JoinServer = None,
    agent_package: AgentPackage = None,
) -> None:
    """Remedy, Kube Defender and Machine operator in one process, in any cluster that has the CRDs.

    Kube Defender's API is served if --listen-port is given.
    """
    from kubenode.cli.run import everything

    everything(ctx.params)


@run_app.command("remedy")
def run_remedy(
    ctx: typer.Context,
    defender_url: DefenderUrl = None,
    defender_token_file: DefenderTokenFile = None,
    defender_ca_file: DefenderCaFile = None,
    defender_cert_file: DefenderCertFile = None,
    defender_key_file: DefenderKeyFile = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = None,
    log_level: LogLevel = None,
    log_json: LogJson = None,
    health_address: HealthAddress = None,
    health_port: HealthPort = None,
    no_lease: NoLease = None,
    audit_file: AuditFile = None,
    lineage_file: LineageFile = None,
    traces_url: TracesUrl = None,
    http_read_seconds: HttpReadSeconds = None,
    http_connections: HttpConnections = None,
    http_connections_per_address: HttpPerAddress = None,
    http_body_bytes: HttpBodyBytes = None,
    webhook_port: WebhookPort = None,
    webhook_address: WebhookAddress = None,
    webhook_service: WebhookService = None,
    webhook_host: WebhookHost = None,
    webhook_cert_file: WebhookCertFile = None,
    webhook_key_file: WebhookKeyFile = None,
    webhook_max_matching: WebhookMaxMatching = None,
    node_keys: NodeKeys = None,
    disruptive_node_keys: DisruptiveNodeKeys = None,
    providers_file: ProvidersFile = None,
    receivers_file: ReceiversFile = None,
    webhook_spokesmen: WebhookSpokesmen = None,
    host_doctor_port: HostDoctorPort = None,
    host_doctor_address: HostDoctorAddress = None,
    host_doctor_token_files: HostDoctorTokenFiles = None,
    host_doctor_token_audience: HostDoctorTokenAudience = None,
    host_doctor_client_ca_file: HostDoctorClientCaFile = None,
    host_doctor_clients: HostDoctorClients = None,
    host_doctor_cert_file: HostDoctorCertFile = None,
    host_doctor_key_file: HostDoctorKeyFile = None,
    host_doctor_service: HostDoctorService = None,
    host_doctor_host: HostDoctorHost = None,
    host_doctor_plain_http: HostDoctorPlainHttp = None,
    bundles: Bundles = None,
    bundles_endpoint: BundlesEndpoint = None,
) -> None:
    """The remedy operator: rules, matches, jobs. Without a Kube Defender nothing acts."""
    from kubenode.cli.run import remedy

    remedy(ctx.params)


@run_app.command("defender")
def run_defender(
    ctx: typer.Context,
    listen_address: ListenAddress = None,
    listen_port: ListenPort = None,
    token_file: TokenFile = None,
    token_review: TokenReview = None,
    token_audience: TokenAudience = None,
    client_ca_file: ClientCaFile = None,
    permit_holders: PermitHolders = None,
    tls: Tls = None,
    tls_cert_file: TlsCertFile = None,
    tls_key_file: TlsKeyFile = None,
    tls_service: TlsService = None,
    tls_host: TlsHost = None,
    plain_http: PlainHttp = None,
    guard_port: GuardPort = None,
    guard_address: GuardAddress = None,
    guard_cert_file: GuardCertFile = None,
    guard_key_file: GuardKeyFile = None,
    guard_exempt: GuardExempt = None,
    guard_listed: GuardListed = None,
    leader_address: LeaderAddress = None,
    dashboard_port: DashboardPort = None,
    dashboard_address: DashboardAddress = None,
    dashboard_key_file: DashboardKeyFile = None,
    dashboard_user_header: DashboardUserHeader = None,
    dashboard_groups_header: DashboardGroupsHeader = None,
    dashboard_proxy_addresses: DashboardProxyAddresses = None,
    dashboard_proxy_secret_file: DashboardProxySecretFile = None,
    dashboard_user_prefix: DashboardUserPrefix = None,
    redis_url: RedisUrl = None,
    redis_password_file: RedisPasswordFile = None,
    redis_ca_file: RedisCaFile = None,
    cluster: Cluster = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = None,
    log_level: LogLevel = None,
    log_json: LogJson = None,
    health_address: HealthAddress = None,
    health_port: HealthPort = None,
    no_lease: NoLease = None,
    audit_file: AuditFile = None,
    lineage_file: LineageFile = None,
    traces_url: TracesUrl = None,
    http_read_seconds: HttpReadSeconds = None,
    http_connections: HttpConnections = None,
    http_connections_per_address: HttpPerAddress = None,
    http_body_bytes: HttpBodyBytes = None,
) -> None:
    """Kube Defender: says yes or no to every disruptive act."""
    from kubenode.cli.run import defender

    defender(ctx.params)


@run_app.command("machine")
def run_machine(
    ctx: typer.Context,
    defender_url: DefenderUrl = None,
    defender_token_file: DefenderTokenFile = None,
    defender_ca_file: DefenderCaFile = None,
    defender_cert_file: DefenderCertFile = None,
    defender_key_file: DefenderKeyFile = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = None,
    log_level: LogLevel = None,
    log_json: LogJson = None,
    health_address: HealthAddress = None,
    health_port: HealthPort = None,
    no_lease: NoLease = None,
    audit_file: AuditFile = None,
    lineage_file: LineageFile = None,
    traces_url: TracesUrl = None,
    http_read_seconds: HttpReadSeconds = None,
    http_connections: HttpConnections = None,
    http_connections_per_address: HttpPerAddress = None,
    http_body_bytes: HttpBodyBytes = None,
    prometheus_url: PrometheusUrl = None,
    providers_file: ProvidersFile = None,
    cluster: ClusterOfMachines = None,
    join_server: JoinServer = None,
    agent_package: AgentPackage = None,
    webhook_port: MachineWebhookPort = None,
    webhook_address: WebhookAddress = None,
    webhook_service: WebhookService = None,
    webhook_host: WebhookHost = None,
    webhook_cert_file: WebhookCertFile = None,
    webhook_key_file: WebhookKeyFile = None,
) -> None:
    """The Machine operator: keeps machines and what runs on them at the declared state."""
    from kubenode.cli.run_machine import machine

    machine(ctx.params)


@run_app.command("agent", add_help_option=False, context_settings={"ignore_unknown_options": True})
def run_agent(
    arguments: Annotated[list[str] | None, typer.Argument(metavar="[CONFIG]")] = None,
) -> None:
    """The node agent, on this host."""
    from agent.main import main as agent  # and nothing else: it runs on every node

    raise typer.Exit(agent(arguments or []))
