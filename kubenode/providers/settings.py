"""Settings of each provider, as in the providers file.

They hold no credentials: each SDK finds them by its own rules (environment, files, the identity of
the pod or machine). Those of BMCs are in files.
"""

import ipaddress
import re
import shlex
from datetime import timedelta
from enum import StrEnum
from typing import Literal

from pydantic import Field, field_validator

from kubenode.api.base import Model, refusal
from kubenode.api.duration import Duration

_ENDPOINT = r"^https?://[^\s/?#@]+(/[^\s?#@]*)?$"
_DOMAIN = re.compile(
    r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*"
)
_SECOND = timedelta(seconds=1)


class Maker(Model):
    """Of providers that make machines too."""

    name: str = Field("", pattern=r"^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)?$")
    """What `credentialsRef` of a MachineClass says; empty: the type."""


class Timeouts(Model):
    connect_timeout: Duration = timedelta(seconds=5)
    read_timeout: Duration = timedelta(seconds=15)

    @field_validator("connect_timeout", "read_timeout")
    @classmethod
    def _bounded(cls, value: timedelta) -> timedelta:
        if not _SECOND <= value <= 60 * _SECOND:
            raise refusal("out of bounds: write 1s to 60s")
        return value

    @property
    def seconds(self) -> tuple[float, float]:
        """For connecting, and for each answer."""
        return self.connect_timeout.total_seconds(), self.read_timeout.total_seconds()


class Connection(Timeouts):
    endpoint: str = Field("", pattern=f"^$|{_ENDPOINT}")
    """Where its API is, if not at the public address: a private endpoint."""


class Private(Connection):
    ca_file: str = ""
    """Authorities that its certificate is checked with, instead of those of the system."""


class Events(Model):
    """Which events of the cloud are read; without this section none are."""

    every: Duration = timedelta(minutes=1)

    @field_validator("every")
    @classmethod
    def _patient(cls, value: timedelta) -> timedelta:
        if not 10 * _SECOND <= value <= timedelta(hours=1):
            raise refusal("out of bounds: write 10s to 1h")
        return value


class AwsEvents(Events):
    queue_url: str = Field("", alias="queueURL", pattern=r"^$|^https?://\S+$")
    """An SQS queue that EventBridge and Auto Scaling fill."""
    queue_endpoint: str = Field("", pattern=f"^$|{_ENDPOINT}")


class AzureEvents(Events):
    every: Duration = timedelta(minutes=5)


class AlibabaEvents(Events):
    disks: bool = True
    """Whether faults of disks are read too."""


class StopInGroup(StrEnum):
    """What to do with an instance whose group would replace it while it is off."""

    REFUSE = "Refuse"
    ALLOW = "Allow"


class AwsSettings(Maker, Private):
    type: Literal["aws"]
    events: AwsEvents | None = None
    region: str = Field(pattern=r"^[a-z]{2}(-[a-z]+)+-[0-9]+$")
    profile: str = ""
    """Of the shared configuration files; "" is the default chain."""
    role_arn: str = Field("", pattern=r"^$|^arn:aws[a-z-]*:iam::[0-9]{12}:role/[\w+=,.@/-]+$")
    """A role to assume with those credentials."""
    stop_in_group: StopInGroup = StopInGroup.REFUSE


class AzureReplace(StrEnum):
    REIMAGE = "Reimage"
    DELETE = "Delete"


class AzureCloud(StrEnum):
    PUBLIC = "Public"
    CHINA = "China"
    US_GOVERNMENT = "USGovernment"


class AzureSettings(Maker, Private):
    type: Literal["azure"]
    events: AzureEvents | None = None
    subscription: str = Field(pattern=r"^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$")
    replace: AzureReplace = AzureReplace.REIMAGE
    """Reimage keeps the instance and its number. Delete leaves it to others to make one more."""
    cloud: AzureCloud = AzureCloud.PUBLIC


class AlibabaSettings(Maker, Private):
    type: Literal["alibaba"]
    events: AlibabaEvents | None = None
    region: str = Field(pattern=r"^[a-z]{2}-[a-z0-9-]+$")
    ess_endpoint: str = Field("", pattern=f"^$|{_ENDPOINT}")
    """As `endpoint`, of Auto Scaling (ESS)."""
    stop_in_group: StopInGroup = StopInGroup.REFUSE


class GcpSettings(Connection):
    type: Literal["gcp"]
    events: Events | None = None
    project: str = Field(pattern=r"^([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]$")
    stop_in_group: StopInGroup = StopInGroup.REFUSE
    discard_local_ssd: bool | None = None
    """Of machines with local SSDs, which Compute Engine does not stop unless this is said."""


class RedfishAuth(StrEnum):
    BASIC = "Basic"
    SESSION = "Session"


_BMC = "{bmc}"


class RedfishSettings(Timeouts):
    type: Literal["redfish"]
    within: list[str] = Field(min_length=1)
    """Networks (10.8.0.0/16) and domains (bmc.example.com) that BMCs are in. A Node's annotation
    can be written by its kubelet: nothing outside is ever called."""
    bmcs: dict[str, str] = Field(default_factory=dict)
    """Node name to BMC address, where it shall not come from an annotation."""
    username_file: str
    """Path of a file. `{bmc}` stands for the BMC's name or address, with "-" for ":"."""
    password_file: str
    """Like `username_file`. With `{bmc}` no BMC receives the password of another."""
    auth: RedfishAuth = RedfishAuth.BASIC
    ca_file: str = ""
    verify_tls: bool = True
    check_host_name: bool = True
    """Refuse a system whose HostName is another one than the Node's."""
    trust_annotations: bool = False
    """Take an address from a Node's annotation also where the system's HostName does not name the
    Node: empty, or not checked. Whoever has the kubelet's key may write the annotation."""

    def credentials_of(self, host: str) -> tuple[str, str]:
        """Return the files with the user name and the password for the BMC at `host`."""
        part = host.replace(":", "-")
        return self.username_file.replace(_BMC, part), self.password_file.replace(_BMC, part)

    @field_validator("username_file", "password_file")
    @classmethod
    def _known_variable(cls, value: str) -> str:
        if {"{", "}"} & set(value.replace(_BMC, "")):
            raise refusal(f"{value!r} has an unknown variable: write {_BMC}, or no braces")
        return value

    @field_validator("within")
    @classmethod
    def _places(cls, value: list[str]) -> list[str]:
        for place in value:
            if network(place) is None and not _DOMAIN.fullmatch(place):
                raise refusal(
                    f"{place!r} is neither a network nor a domain: write 10.8.0.0/16 or"
                    " bmc.example.com"
                )
        return value


class LocalSettings(Maker):
    type: Literal["local"]
    command: list[str] | str
    """Called as `COMMAND VERB ...`; docs/providers.md."""
    prefix: str = Field("kubenode-local://", min_length=3)
    timeout: Duration = timedelta(seconds=30)

    @property
    def arguments(self) -> list[str]:
        return shlex.split(self.command) if isinstance(self.command, str) else self.command

    @field_validator("command")
    @classmethod
    def _something(cls, value: list[str] | str) -> list[str] | str:
        try:
            arguments = shlex.split(value) if isinstance(value, str) else value
        except ValueError as error:
            raise refusal(f"its quotes do not close ({error}): write a list of words") from error
        if not arguments:
            raise refusal("empty: write the program and its arguments")
        return value


MODELS: dict[str, type[Model]] = {
    "aws": AwsSettings,
    "azure": AzureSettings,
    "alibaba": AlibabaSettings,
    "gcp": GcpSettings,
    "redfish": RedfishSettings,
    "local": LocalSettings,
}


def network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        return None
