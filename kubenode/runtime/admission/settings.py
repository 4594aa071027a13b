"""Where an admission webhook of ours listens, and under which names it is called."""

from dataclasses import KW_ONLY, dataclass, field

from kubenode.runtime.httplimits import DEFAULT, HttpLimits
from kubenode.runtime.tls.rotation import CertificateLifetimes


@dataclass(frozen=True, slots=True)
class WebhookPlace:
    """port    0 takes a free one
    service  of the chart, in `namespace`; `hosts` are further names or addresses that lead here
    secret   where all replicas keep the certificate
    hook     name of the webhook configurations
    """

    port: int
    _: KW_ONLY
    address: str = "127.0.0.1"
    namespace: str = "kubenode-system"
    service: str
    hosts: tuple[str, ...] = ()
    secret: str
    hook: str
    lives: CertificateLifetimes = field(default_factory=CertificateLifetimes)
    limits: HttpLimits = DEFAULT

    @property
    def names(self) -> tuple[str, ...]:
        """What its certificate is for."""
        name = f"{self.service}.{self.namespace}"
        return (f"{name}.svc", name, f"{name}.svc.cluster.local", *self.hosts)
