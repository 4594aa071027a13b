"""What making machines needs to know of this site, beside a Machine and its class."""

from dataclasses import dataclass, field

from kubenode.providers.instances import InstanceProviders
from machine.importing.joining import NO_DOWNLOAD, Download


@dataclass(frozen=True, slots=True)
class Provisioning:
    """instances  who makes machines; none without a providers file
    cluster    name of this cluster on the instances' tags
    server     https://HOST:PORT of the API server, as new hosts reach it
    ca         PEM of who signs its certificate
    download   where new hosts find the agent, if not in their image
    """

    instances: InstanceProviders = field(default_factory=InstanceProviders)
    cluster: str = ""
    server: str = ""
    ca: str = ""
    download: Download = NO_DOWNLOAD
