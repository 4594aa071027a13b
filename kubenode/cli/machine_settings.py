"""The settings of `kubenode run machine`, beyond those of every program."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kubenode.cli.settings import (
    CLUSTER_NAME,
    MACHINES,
    URL,
    WEBHOOK,
    AskerFlags,
    Central,
    ProvidersFlags,
    WebhookServerFlags,
)
from kubenode.runtime.settings_model import port, setting

if TYPE_CHECKING:
    from machine.webhook.webhook import MachineWebhookSettings


@dataclass(frozen=True)
class PrometheusFlags(Central):
    """Settings of programs that run the Machine operator."""

    prometheus_url: str = setting(
        "",
        "URL of the Prometheus server for inspections of rollouts.",
        MACHINES,
        metavar="URL",
        pattern=f"{URL}|^$",
    )


@dataclass(frozen=True)
class MachineMakingFlags(ProvidersFlags):
    """Settings of programs that run the Machine operator, which also makes machines."""

    cluster: str | None = setting(
        None,
        "Cluster name in the tags of machines; default: UID of namespace kube-system.",
        MACHINES,
        min_length=1,
        max_length=63,
        pattern=CLUSTER_NAME,
    )
    join_server: str = setting(
        "",
        "URL of the API server for new machines; default: that of this program.",
        MACHINES,
        metavar="URL",
        pattern=r"^$|^https://[^\s/,]+/?$",
    )
    agent_package: str = setting(
        "",
        "URL of the agent for new machines; default: the agent is in their image.",
        MACHINES,
        metavar="URL#sha256=DIGEST",
        pattern=r"^$|^https?://[^\s#'\"]+\.(deb|rpm|tar\.gz)#sha256=[0-9a-f]{64}$",
    )


@dataclass(frozen=True)
class MachineFlags(WebhookServerFlags, MachineMakingFlags, PrometheusFlags, AskerFlags):
    """Settings of `kubenode run machine`."""

    webhook_port: int | None = port(
        None, "Port of the admission webhook for Machines and sets; default: no webhook.", WEBHOOK
    )
    webhook_service: str = setting("kubenode-machine-webhook", "Service of the webhook.", WEBHOOK)

    @property
    def webhook(self) -> "MachineWebhookSettings | None":
        """Return the settings of the webhook; None if there is no webhook."""
        if self.webhook_port is None:
            return None
        from machine.webhook.webhook import MachineWebhookSettings

        return MachineWebhookSettings(
            self.webhook_port,
            address=self.webhook_address,
            namespace=self.namespace,
            service=self.webhook_service,
            hosts=(self.webhook_host,) if self.webhook_host else (),
            files=self.webhook_files,
            limits=self.http_limits,
        )
