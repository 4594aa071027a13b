"""`kubenode run ...`: the programs and their flags.

A flag that is not given is None here. Its KUBENODE_* variable or its default then applies
(kubenode.cli.settings).
"""

from typing import Annotated

import typer

from kubenode.cli import run_flags as flag
from kubenode.cli.command_group import CommandGroup
from kubenode.cli.options import Context, Kubeconfig

run_app = CommandGroup(help="Run a program of KubeNode until it is stopped.")


@run_app.command("all")
def run_all(
    ctx: typer.Context,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: flag.Namespace = None,
    log_level: flag.LogLevel = None,
    log_json: flag.LogJson = None,
    health_address: flag.HealthAddress = None,
    health_port: flag.HealthPort = None,
    no_lease: flag.NoLease = None,
    audit_file: flag.AuditFile = None,
    lineage_file: flag.LineageFile = None,
    traces_url: flag.TracesUrl = None,
    http_read_seconds: flag.HttpReadSeconds = None,
    http_connections: flag.HttpConnections = None,
    http_connections_per_address: flag.HttpPerAddress = None,
    http_body_bytes: flag.HttpBodyBytes = None,
    webhook_port: flag.WebhookPort = None,
    webhook_address: flag.WebhookAddress = None,
    webhook_service: flag.WebhookService = None,
    webhook_host: flag.WebhookHost = None,
    webhook_cert_file: flag.WebhookCertFile = None,
    webhook_key_file: flag.WebhookKeyFile = None,
    webhook_max_matching: flag.WebhookMaxMatching = None,
    node_keys: flag.NodeKeys = None,
    disruptive_node_keys: flag.DisruptiveNodeKeys = None,
    providers_file: flag.ProvidersFile = None,
    receivers_file: flag.ReceiversFile = None,
    webhook_spokesmen: flag.WebhookSpokesmen = None,
    host_doctor_port: flag.HostDoctorPort = None,
    host_doctor_address: flag.HostDoctorAddress = None,
    host_doctor_token_files: flag.HostDoctorTokenFiles = None,
    host_doctor_token_audience: flag.HostDoctorTokenAudience = None,
    host_doctor_client_ca_file: flag.HostDoctorClientCaFile = None,
    host_doctor_clients: flag.HostDoctorClients = None,
    host_doctor_cert_file: flag.HostDoctorCertFile = None,
    host_doctor_key_file: flag.HostDoctorKeyFile = None,
    host_doctor_service: flag.HostDoctorService = None,
    host_doctor_host: flag.HostDoctorHost = None,
    host_doctor_plain_http: flag.HostDoctorPlainHttp = None,
    bundles: flag.Bundles = None,
    bundles_endpoint: flag.BundlesEndpoint = None,
    listen_address: flag.ListenAddress = None,
    listen_port: flag.ListenPort = None,
    token_file: flag.TokenFile = None,
    token_review: flag.TokenReview = None,
    token_audience: flag.TokenAudience = None,
    client_ca_file: flag.ClientCaFile = None,
    permit_holders: flag.PermitHolders = None,
    tls: flag.Tls = None,
    tls_cert_file: flag.TlsCertFile = None,
    tls_key_file: flag.TlsKeyFile = None,
    tls_service: flag.TlsService = None,
    tls_host: flag.TlsHost = None,
    plain_http: flag.PlainHttp = None,
    guard_port: flag.GuardPort = None,
    guard_address: flag.GuardAddress = None,
    guard_cert_file: flag.GuardCertFile = None,
    guard_key_file: flag.GuardKeyFile = None,
    guard_exempt: flag.GuardExempt = None,
    guard_listed: flag.GuardListed = None,
    dashboard_port: flag.DashboardPort = None,
    dashboard_address: flag.DashboardAddress = None,
    dashboard_key_file: flag.DashboardKeyFile = None,
    dashboard_user_header: flag.DashboardUserHeader = None,
    dashboard_groups_header: flag.DashboardGroupsHeader = None,
    dashboard_proxy_addresses: flag.DashboardProxyAddresses = None,
    dashboard_proxy_secret_file: flag.DashboardProxySecretFile = None,
    dashboard_user_prefix: flag.DashboardUserPrefix = None,
    prometheus_url: flag.PrometheusUrl = None,
    cluster: flag.ClusterOfMachines = None,
    join_server: flag.JoinServer = None,
    agent_package: flag.AgentPackage = None,
) -> None:
    """Run the Remedy operator, Kube Defender and the Machine operator in one process.

    Kube Defender's API is served if --listen-port is given.
    """
    from kubenode.cli.run import everything

    everything(ctx.params)


@run_app.command("remedy")
def run_remedy(
    ctx: typer.Context,
    defender_url: flag.DefenderUrl = None,
    defender_token_file: flag.DefenderTokenFile = None,
    defender_ca_file: flag.DefenderCaFile = None,
    defender_cert_file: flag.DefenderCertFile = None,
    defender_key_file: flag.DefenderKeyFile = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: flag.Namespace = None,
    log_level: flag.LogLevel = None,
    log_json: flag.LogJson = None,
    health_address: flag.HealthAddress = None,
    health_port: flag.HealthPort = None,
    no_lease: flag.NoLease = None,
    audit_file: flag.AuditFile = None,
    lineage_file: flag.LineageFile = None,
    traces_url: flag.TracesUrl = None,
    http_read_seconds: flag.HttpReadSeconds = None,
    http_connections: flag.HttpConnections = None,
    http_connections_per_address: flag.HttpPerAddress = None,
    http_body_bytes: flag.HttpBodyBytes = None,
    webhook_port: flag.WebhookPort = None,
    webhook_address: flag.WebhookAddress = None,
    webhook_service: flag.WebhookService = None,
    webhook_host: flag.WebhookHost = None,
    webhook_cert_file: flag.WebhookCertFile = None,
    webhook_key_file: flag.WebhookKeyFile = None,
    webhook_max_matching: flag.WebhookMaxMatching = None,
    node_keys: flag.NodeKeys = None,
    disruptive_node_keys: flag.DisruptiveNodeKeys = None,
    providers_file: flag.ProvidersFile = None,
    receivers_file: flag.ReceiversFile = None,
    webhook_spokesmen: flag.WebhookSpokesmen = None,
    host_doctor_port: flag.HostDoctorPort = None,
    host_doctor_address: flag.HostDoctorAddress = None,
    host_doctor_token_files: flag.HostDoctorTokenFiles = None,
    host_doctor_token_audience: flag.HostDoctorTokenAudience = None,
    host_doctor_client_ca_file: flag.HostDoctorClientCaFile = None,
    host_doctor_clients: flag.HostDoctorClients = None,
    host_doctor_cert_file: flag.HostDoctorCertFile = None,
    host_doctor_key_file: flag.HostDoctorKeyFile = None,
    host_doctor_service: flag.HostDoctorService = None,
    host_doctor_host: flag.HostDoctorHost = None,
    host_doctor_plain_http: flag.HostDoctorPlainHttp = None,
    bundles: flag.Bundles = None,
    bundles_endpoint: flag.BundlesEndpoint = None,
) -> None:
    """Run the Remedy operator, which evaluates rules and runs jobs. It needs Kube Defender to
    act.
    """
    from kubenode.cli.run import remedy

    remedy(ctx.params)


@run_app.command("defender")
def run_defender(
    ctx: typer.Context,
    listen_address: flag.ListenAddress = None,
    listen_port: flag.ListenPort = None,
    token_file: flag.TokenFile = None,
    token_review: flag.TokenReview = None,
    token_audience: flag.TokenAudience = None,
    client_ca_file: flag.ClientCaFile = None,
    permit_holders: flag.PermitHolders = None,
    tls: flag.Tls = None,
    tls_cert_file: flag.TlsCertFile = None,
    tls_key_file: flag.TlsKeyFile = None,
    tls_service: flag.TlsService = None,
    tls_host: flag.TlsHost = None,
    plain_http: flag.PlainHttp = None,
    guard_port: flag.GuardPort = None,
    guard_address: flag.GuardAddress = None,
    guard_cert_file: flag.GuardCertFile = None,
    guard_key_file: flag.GuardKeyFile = None,
    guard_exempt: flag.GuardExempt = None,
    guard_listed: flag.GuardListed = None,
    leader_address: flag.LeaderAddress = None,
    dashboard_port: flag.DashboardPort = None,
    dashboard_address: flag.DashboardAddress = None,
    dashboard_key_file: flag.DashboardKeyFile = None,
    dashboard_user_header: flag.DashboardUserHeader = None,
    dashboard_groups_header: flag.DashboardGroupsHeader = None,
    dashboard_proxy_addresses: flag.DashboardProxyAddresses = None,
    dashboard_proxy_secret_file: flag.DashboardProxySecretFile = None,
    dashboard_user_prefix: flag.DashboardUserPrefix = None,
    redis_url: flag.RedisUrl = None,
    redis_password_file: flag.RedisPasswordFile = None,
    redis_ca_file: flag.RedisCaFile = None,
    cluster: flag.Cluster = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: flag.Namespace = None,
    log_level: flag.LogLevel = None,
    log_json: flag.LogJson = None,
    health_address: flag.HealthAddress = None,
    health_port: flag.HealthPort = None,
    no_lease: flag.NoLease = None,
    audit_file: flag.AuditFile = None,
    lineage_file: flag.LineageFile = None,
    traces_url: flag.TracesUrl = None,
    http_read_seconds: flag.HttpReadSeconds = None,
    http_connections: flag.HttpConnections = None,
    http_connections_per_address: flag.HttpPerAddress = None,
    http_body_bytes: flag.HttpBodyBytes = None,
) -> None:
    """Run Kube Defender, which grants or refuses permits for disruptive acts."""
    from kubenode.cli.run import defender

    defender(ctx.params)


@run_app.command("machine")
def run_machine(
    ctx: typer.Context,
    defender_url: flag.DefenderUrl = None,
    defender_token_file: flag.DefenderTokenFile = None,
    defender_ca_file: flag.DefenderCaFile = None,
    defender_cert_file: flag.DefenderCertFile = None,
    defender_key_file: flag.DefenderKeyFile = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: flag.Namespace = None,
    log_level: flag.LogLevel = None,
    log_json: flag.LogJson = None,
    health_address: flag.HealthAddress = None,
    health_port: flag.HealthPort = None,
    no_lease: flag.NoLease = None,
    audit_file: flag.AuditFile = None,
    lineage_file: flag.LineageFile = None,
    traces_url: flag.TracesUrl = None,
    http_read_seconds: flag.HttpReadSeconds = None,
    http_connections: flag.HttpConnections = None,
    http_connections_per_address: flag.HttpPerAddress = None,
    http_body_bytes: flag.HttpBodyBytes = None,
    prometheus_url: flag.PrometheusUrl = None,
    providers_file: flag.ProvidersFile = None,
    cluster: flag.ClusterOfMachines = None,
    join_server: flag.JoinServer = None,
    agent_package: flag.AgentPackage = None,
    webhook_port: flag.MachineWebhookPort = None,
    webhook_address: flag.WebhookAddress = None,
    webhook_service: flag.WebhookService = None,
    webhook_host: flag.WebhookHost = None,
    webhook_cert_file: flag.WebhookCertFile = None,
    webhook_key_file: flag.WebhookKeyFile = None,
) -> None:
    """Run the Machine operator, which keeps machines and their components at the declared state."""
    from kubenode.cli.run_machine import machine

    machine(ctx.params)


@run_app.command("agent", add_help_option=False, context_settings={"ignore_unknown_options": True})
def run_agent(
    arguments: Annotated[list[str] | None, typer.Argument(metavar="[CONFIG]")] = None,
) -> None:
    """Run the node agent on this host."""
    from agent.main import main as agent  # and nothing else: it runs on every node

    raise typer.Exit(agent(arguments or []))
