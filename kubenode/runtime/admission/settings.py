"""Address of an admission webhook, and the names under which it is called."""

from dataclasses import KW_ONLY, dataclass, field

from kubenode.runtime.serverlimits import DEFAULT, HttpLimits
from kubenode.runtime.tls.rotation import CertificateLifetimes


@dataclass(frozen=True, slots=True)
class WebhookPlace:
    """Address, names and certificate of a webhook.

    port: 0 takes a free one
    service: Service of the chart, in `namespace`
    hosts: further names or addresses that lead to the webhook
    secret: Secret in which all replicas share the certificate
    hook: name of the webhook configurations
    lives: lifetimes of the certificate
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
        """Return the DNS names and addresses of its certificate."""
        name = f"{self.service}.{self.namespace}"
        return (f"{name}.svc", name, f"{name}.svc.cluster.local", *self.hosts)
