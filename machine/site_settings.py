"""Settings of the site for provisioning, besides a Machine and its class."""

from dataclasses import dataclass, field

from kubenode.providers.instances import InstanceProviders
from machine.hostimport.join_settings import NO_DOWNLOAD, Download


@dataclass(frozen=True, slots=True)
class Provisioning:
    """Settings for provisioning.

    instances: the providers, none without a providers file.
    cluster: name of this cluster in the tags of instances.
    server: https://HOST:PORT of the API server, as new hosts reach it.
    ca: PEM of the authority that signs its certificate.
    download: location of the agent's package, if it is not in the image.
    """

    instances: InstanceProviders = field(default_factory=InstanceProviders)
    cluster: str = ""
    server: str = ""
    ca: str = ""
    download: Download = NO_DOWNLOAD
