"""What the operator makes machines with: the providers, and what a new host is told to join by."""

from dataclasses import dataclass, field

from kubenode.providers.instances import InstanceProviders
from machine.importing.joining import NO_DOWNLOAD, Download


@dataclass(frozen=True, slots=True)
class Provisioning:
    """instances  those of the providers file that can make machines
    cluster    name of this cluster, as on the tags of its instances; "" where none is made
    server     https://HOST:PORT of the API server, as hosts reach it
    ca         PEM of who signs the server's certificate
    download   where a new host gets the agent from
    """

    instances: InstanceProviders = field(default_factory=InstanceProviders)
    cluster: str = ""
    server: str = ""
    ca: str = ""
    download: Download = NO_DOWNLOAD
