"""The settings of `kubenode run machine`, beyond those of every program."""

from pydantic import Field

from kubenode.cli.settings import AskerFlags, MachineMakingFlags, PrometheusFlags, path_of
from kubenode.runtime.tls.files import PemFiles
from machine.webhook.webhook import MachineWebhookSettings


class MachineFlags(AskerFlags, PrometheusFlags, MachineMakingFlags):
    webhook_port: int | None = Field(
        None,
        ge=0,
        le=65535,
        description="where objects are checked before they are stored; 0: free",
    )
    webhook_address: str = Field("127.0.0.1", description="where the webhook listens")
    webhook_service: str = Field(
        "kubenode-machine-webhook", description="Service in our namespace that leads to it"
    )
    webhook_host: str | None = Field(
        None, description="further name or address of it, where the API server is given a URL"
    )
    webhook_cert_file: str | None = Field(
        None, description="its certificate, which others renew; without it the program makes one"
    )
    webhook_key_file: str | None = Field(None, description="the key of that certificate")

    @property
    def webhook(self) -> MachineWebhookSettings | None:
        """Return the settings of the webhook; None if there is no webhook."""
        if self.webhook_port is None:
            return None
        return MachineWebhookSettings(
            self.webhook_port,
            address=self.webhook_address,
            namespace=self.namespace,
            service=self.webhook_service,
            hosts=(self.webhook_host,) if self.webhook_host else (),
            files=PemFiles(path_of(self.webhook_cert_file), path_of(self.webhook_key_file)),
            limits=self.http_limits,
        )
