"""The settings of `kubenode run remedy`, beyond those of every program."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kubenode.cli.settings import (
    OUTPUTS,
    WEBHOOK,
    AskerFlags,
    Central,
    ProvidersFlags,
    WebhookServerFlags,
    entries,
)
from kubenode.cli.stream_settings import StreamFlags
from kubenode.runtime.settings_model import port, setting

if TYPE_CHECKING:
    from remedy.operator import RemedySettings
    from remedy.webhook.webhook import RuleWebhookSettings

HOST_DOCTOR = "Host Doctor"


def _check_share(text: str) -> None:
    """Raise ValueError unless the text is a number or a percentage of nodes."""
    from kubenode.api.share import PATTERN

    if not re.fullmatch(f"{PATTERN}|[0-9]+", text):
        raise ValueError("write a number of nodes such as 3, or a percentage such as 5%")


def _check_node_keys(text: str) -> None:
    """Raise ValueError for an entry that can have no effect."""
    from rules.nodekeys import NodeKeys

    for fault in NodeKeys(entries(text)).entry_faults():
        raise ValueError(fault)


@dataclass(frozen=True)
class HostDoctorFlags(Central):
    """Settings of Host Doctor's listener, for programs that run the remedy operator."""

    host_doctor_port: int | None = port(
        None,
        "Port of Host Doctor, which receives alerts and events about hosts; default: none.",
        HOST_DOCTOR,
    )
    host_doctor_address: str = setting(
        "127.0.0.1", "Address of Host Doctor; default 127.0.0.1.", HOST_DOCTOR, metavar="ADDRESS"
    )
    host_doctor_token_files: str = setting(
        "", "File with the bearer tokens of senders, one per line.", HOST_DOCTOR, metavar="FILE,..."
    )
    host_doctor_token_audience: str = setting(
        "", "Audience of the service account tokens of agents.", HOST_DOCTOR
    )
    host_doctor_client_ca_file: str | None = setting(
        None,
        "File with the certificate authority of agents and other clients.",
        HOST_DOCTOR,
        metavar="FILE",
    )
    host_doctor_clients: str = setting(
        "", "Common names of clients other than agents.", HOST_DOCTOR, metavar="NAME,..."
    )
    host_doctor_cert_file: str | None = setting(
        None,
        "File with the certificate of Host Doctor; default: one of the authority of the program.",
        HOST_DOCTOR,
        metavar="FILE",
    )
    host_doctor_key_file: str | None = setting(
        None, "File with the private key of --host-doctor-cert-file.", HOST_DOCTOR, metavar="FILE"
    )
    host_doctor_service: str = setting(
        "kubenode-host-doctor", "Service of Host Doctor.", HOST_DOCTOR
    )
    host_doctor_host: str | None = setting(
        None, "Additional name or address in the certificate of Host Doctor.", HOST_DOCTOR
    )
    host_doctor_plain_http: bool = setting(
        False, "Serve without TLS, where a service mesh encrypts.", HOST_DOCTOR
    )
    bundles: str | None = setting(
        None,
        "Store for diagnostics of hosts: a folder or s3://BUCKET/PREFIX.",
        OUTPUTS,
        metavar="PLACE",
    )
    bundles_endpoint: str = setting(
        "", "URL of an S3 service other than AWS.", OUTPUTS, metavar="URL"
    )

    @property
    def host_doctor_tokens(self) -> tuple[Path, ...]:
        return tuple(Path(file) for file in entries(self.host_doctor_token_files))

    @property
    def host_doctor_allowed(self) -> frozenset[str]:
        return frozenset(entries(self.host_doctor_clients))

    @property
    def host_doctor_names(self) -> tuple[str, ...]:
        """Return the host names for its certificate."""
        name = f"{self.host_doctor_service}.{self.namespace}"
        more = [self.host_doctor_host] if self.host_doctor_host else []
        return (f"{name}.svc", name, f"{name}.svc.cluster.local", *more)


@dataclass(frozen=True)
class WebhookFlags(WebhookServerFlags, ProvidersFlags, HostDoctorFlags, StreamFlags):
    """Settings of the admission webhook for rules, for programs that run the remedy operator."""

    webhook_port: int | None = port(
        None, "Port of the admission webhook for rules; default: no webhook.", WEBHOOK
    )
    webhook_service: str = setting("kubenode-remedy-webhook", "Service of the webhook.", WEBHOOK)
    webhook_max_matching: str | None = setting(
        None,
        "Maximum number of nodes that a new rule in Enforce may match; default 10%.",
        WEBHOOK,
        metavar="SHARE",
        check=_check_share,
    )
    node_keys: str | None = setting(
        None,
        "Labels and annotations that rules may set on Nodes; default kubenode.io/suspect and"
        " kubenode.io/suspect-*.",
        WEBHOOK,
        metavar="KEY,...",
        check=_check_node_keys,
    )
    disruptive_node_keys: str = setting(
        "",
        "Additional keys that only rungs of class Pods or Node may set.",
        WEBHOOK,
        metavar="KEY,...",
        check=_check_node_keys,
    )
    receivers_file: str | None = setting(
        None, "File with the receivers of notifications and handovers.", OUTPUTS, metavar="FILE"
    )
    webhook_spokesmen: str = setting(
        "",
        "Users, such as a chat bot, that may record decisions of other people.",
        WEBHOOK,
        metavar="USER,...",
    )

    @property
    def max_matching(self) -> int | str:
        """Return the limit on matching nodes.

        It applies at admission, and at load even without a webhook.
        """
        from remedy.registry.radius import MOST_MATCHING

        most = self.webhook_max_matching or MOST_MATCHING
        return most if most.endswith("%") else int(most)

    @property
    def remedy(self) -> "RemedySettings":
        from remedy.operator import RemedySettings
        from rules.nodekeys import ALLOWED, NodeKeys

        allowed = ALLOWED if self.node_keys is None else tuple(entries(self.node_keys))
        keys = NodeKeys(allowed, tuple(entries(self.disruptive_node_keys)))
        return RemedySettings(node_keys=keys, insight_url=self.insight_url)

    @property
    def webhook(self) -> "RuleWebhookSettings | None":
        """Return the settings of the webhook; None if there is no webhook."""
        if self.webhook_port is None:
            return None
        from remedy.webhook.webhook import RuleWebhookSettings

        return RuleWebhookSettings(
            self.webhook_port,
            address=self.webhook_address,
            namespace=self.namespace,
            service=self.webhook_service,
            hosts=(self.webhook_host,) if self.webhook_host else (),
            most=self.max_matching,
            spokesmen=tuple(entries(self.webhook_spokesmen)),
            files=self.webhook_files,
            limits=self.http_limits,
        )


@dataclass(frozen=True)
class RemedyFlags(WebhookFlags, AskerFlags):
    """Settings of `kubenode run remedy`."""
