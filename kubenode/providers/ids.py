"""Provider IDs: which machine of which provider a Node's `spec.providerID` names.

Each form is that of the provider's cloud controller manager. A text that does not match a form as a
whole is rejected: a machine guessed from half an ID could belong to somebody else.
"""

import re
from dataclasses import dataclass

LONGEST = 1024


class BadID(ValueError):
    """A provider ID that does not have the required form. The text names both."""


@dataclass(frozen=True, slots=True)
class Ec2:
    zone: str
    instance: str

    def __str__(self) -> str:
        return f"aws:///{self.zone}/{self.instance}"


@dataclass(frozen=True, slots=True)
class AzureVM:
    """A virtual machine of Azure.

    scale_set: the set in uniform mode, with `name` the number of the machine in it; "" for a
        standalone machine or one of a set in flexible mode, with `name` its name
    """

    subscription: str
    group: str
    name: str
    scale_set: str = ""

    def __str__(self) -> str:
        inside = f"virtualMachineScaleSets/{self.scale_set}/" if self.scale_set else ""
        return (
            f"azure:///subscriptions/{self.subscription}/resourceGroups/{self.group}"
            f"/providers/Microsoft.Compute/{inside}virtualMachines/{self.name}"
        )


@dataclass(frozen=True, slots=True)
class Gce:
    project: str
    zone: str
    name: str

    def __str__(self) -> str:
        return f"gce://{self.project}/{self.zone}/{self.name}"


@dataclass(frozen=True, slots=True)
class Ecs:
    region: str
    instance: str

    def __str__(self) -> str:
        return f"{self.region}.{self.instance}"


_EC2 = re.compile(r"aws:///([a-z]{2}[a-z0-9-]{3,60})/(i-(?:[0-9a-f]{8}|[0-9a-f]{17}))")
_AZURE = re.compile(
    r"azure:///subscriptions/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
    r"/resourceGroups/([-\w.()]{0,89}[-\w()])/providers/Microsoft\.Compute"
    r"(?:/virtualMachineScaleSets/([a-z0-9][\w.-]{0,63}))?"
    r"/virtualMachines/([a-z0-9][\w.-]{0,79})",
    re.IGNORECASE | re.ASCII,
)
_GCE = re.compile(
    r"gce://((?:[a-z0-9.-]{1,255}:)?[a-z][a-z0-9-]{4,28}[a-z0-9])"
    r"/([a-z]+-[a-z]+[0-9]+-[a-z0-9]{1,4})/([a-z](?:[a-z0-9-]{0,61}[a-z0-9])?)"
)
_ECS = re.compile(r"(?:alicloud://)?([a-z]{2}-[a-z0-9-]{2,60})\.(i-[0-9a-z]{8,40})")


def ec2(text: str) -> Ec2:
    """Parse an ID of EC2. Raises BadID, as each of these functions does."""
    match = _whole(_EC2, text, "aws:///ZONE/i-0123456789abcdef0")
    return Ec2(match[1], match[2])


def azure(text: str) -> AzureVM:
    """Parse an ID of Azure. The path may be in any case, as in the resource manager."""
    form = (
        "azure:///subscriptions/UUID/resourceGroups/GROUP/providers/Microsoft.Compute"
        "/virtualMachines/NAME or …/virtualMachineScaleSets/SET/virtualMachines/NUMBER"
    )
    match = _whole(_AZURE, text, form)
    scale_set, name = match[3] or "", match[4]
    if scale_set and not name.isdecimal():
        raise BadID(_describe_mismatch(text, form))
    return AzureVM(match[1], match[2], name, scale_set)


def gce(text: str) -> Gce:
    match = _whole(_GCE, text, "gce://PROJECT/ZONE/NAME")
    return Gce(match[1], match[2], match[3])


def ecs(text: str) -> Ecs:
    match = _whole(_ECS, text, "REGION.i-… or alicloud://REGION.i-…")
    return Ecs(match[1], match[2])


def in_region(zone: str, region: str) -> bool:
    """Return whether an AWS zone is in `region`, as `eu-west-1a` or local `us-west-2-lax-1a`."""
    rest = zone.removeprefix(region) if zone.startswith(region) else ""
    return re.fullmatch(r"[a-z]|-[a-z0-9-]+", rest) is not None


def _whole(form: re.Pattern[str], text: str, wanted: str) -> re.Match[str]:
    match = form.fullmatch(text) if len(text) <= LONGEST else None
    if match is None:
        raise BadID(_describe_mismatch(text, wanted))
    return match


def _describe_mismatch(text: str, wanted: str) -> str:
    shown = text if len(text) <= 100 else f"{text[:100]}…"
    return f"providerID {shown!r} does not have the form {wanted}"
