"""The settings of `kubenode run autoscaler-provider`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kubenode.cli.settings import AskerFlags, path_of
from kubenode.runtime.settings_model import LOGS, port, setting

if TYPE_CHECKING:
    from kubenode.runtime.tls.files import PemFiles

SERVER = "Server for Cluster Autoscaler"


@dataclass(frozen=True)
class AutoscalerFlags(AskerFlags):
    """Settings of `kubenode run autoscaler-provider`."""

    health_port: int = port(
        8088, "Port of /healthz, /readyz and /metrics; 0 selects a free port.", LOGS
    )
    autoscaler_port: int = port(8089, "Port of the gRPC server; 0 selects a free port.", SERVER)
    autoscaler_address: str = setting(
        "127.0.0.1", "Address of the gRPC server; default 127.0.0.1.", SERVER, metavar="ADDRESS"
    )
    autoscaler_cert_file: str | None = setting(
        None, "File with the certificate of the gRPC server.", SERVER, metavar="FILE"
    )
    autoscaler_key_file: str | None = setting(
        None, "File with the private key of --autoscaler-cert-file.", SERVER, metavar="FILE"
    )
    autoscaler_ca_file: str | None = setting(
        None,
        "File with the certificate authority that signs the client certificate.",
        SERVER,
        metavar="FILE",
    )
    gpu_label: str = setting(
        "", "Label of Nodes with GPUs, whose value is the type of GPU; default: none.", SERVER
    )

    @property
    def autoscaler_files(self) -> "PemFiles":
        from kubenode.runtime.tls.files import PemFiles

        return PemFiles(
            path_of(self.autoscaler_cert_file),
            path_of(self.autoscaler_key_file),
            path_of(self.autoscaler_ca_file),
        )
