"""Models of `MachineClass.spec.config` for each provider that creates machines. Pure.

A config has what the provider must know to create one machine. The caller adds whose it is (tags)
and what its host runs. Credentials are never here (docs/providers.md).
"""

import json
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, StringConstraints, ValidationError, field_validator, model_validator

from kubenode.api.base import Model, refusal
from kubenode.api.problems import problems
from kubenode.providers.instances import TAGS

MOST_CONFIG = 16 * 1024
"""Bytes as JSON; the commands of provider local read it whole."""
# Field states the lengths: a pattern `{0,128}` of a class with all letters takes 10 MB.
_SUBSCRIPTION = r"/subscriptions/[0-9A-Fa-f-]{36}/resourceGroups/[^/\s]+/providers"

TagText = Annotated[str, StringConstraints(max_length=128, pattern=r"^[^\x00-\x1f]*$")]
Tags = Annotated[dict[TagText, TagText], Field(max_length=40)]
"""Limits that every cloud accepts."""
_NOT_IN_AZURE = re.compile(r"[<>%&\\?/]")


class Tagged(Model):
    tags: Tags = Field(default_factory=dict)
    """Besides ours."""

    @field_validator("tags")
    @classmethod
    def _not_ours(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if name.lower() in TAGS or not name:
                raise refusal(f"tag {name!r} is KubeNode's own: choose another name")
        return value


class AwsVolume(Model):
    device: str = Field("/dev/xvda", pattern=r"^/dev/[a-z0-9]{1,20}$")
    """The image's root device: another name would make a second disk."""
    size_gib: int = Field(ge=1, le=16384, alias="sizeGiB")
    type: str = Field("gp3", pattern=r"^(gp2|gp3|io1|io2|st1|sc1|standard)$")
    encrypted: bool = True


class AwsConfig(Tagged):
    instance_type: str = Field(pattern=r"^[a-z0-9-]{1,30}\.[a-z0-9-]{1,30}$")
    image_id: str = Field(alias="imageID", pattern=r"^ami-[0-9a-f]{8,17}$")
    subnet_id: str = Field(alias="subnetID", pattern=r"^subnet-[0-9a-f]{8,17}$")
    security_group_ids: list[Annotated[str, StringConstraints(pattern=r"^sg-[0-9a-f]{8,17}$")]] = (
        Field(alias="securityGroupIDs", min_length=1, max_length=16)
    )
    instance_profile: str = Field("", max_length=128, pattern=r"^[\w+=,.@-]*$")
    """Name of the IAM instance profile; empty: none."""
    key_name: str = Field("", max_length=255)
    root_volume: AwsVolume | None = None
    """None: as the image says."""


class AzureImage(Model):
    publisher: str = Field(min_length=1, max_length=128)
    offer: str = Field(min_length=1, max_length=128)
    sku: str = Field(min_length=1, max_length=128)
    version: str = Field("latest", min_length=1, max_length=64)


class AzureDiskType(StrEnum):
    PREMIUM = "Premium_LRS"
    PREMIUM_ZONE = "Premium_ZRS"
    STANDARD_SSD = "StandardSSD_LRS"
    STANDARD_SSD_ZONE = "StandardSSD_ZRS"
    STANDARD = "Standard_LRS"


class AzureConfig(Tagged):
    resource_group: str = Field(max_length=90, pattern=r"^[-\w.()]*[-\w()]$")
    location: str = Field(pattern=r"^[a-z0-9]{2,40}$")
    vm_size: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")
    image: AzureImage | None = None
    """Of the marketplace; or `imageID`."""
    image_id: str = Field(
        "",
        alias="imageID",
        pattern=rf"^$|^{_SUBSCRIPTION}/Microsoft\.Compute/(images|galleries)/\S+$",
    )
    subnet_id: str = Field(
        alias="subnetID",
        pattern=rf"^{_SUBSCRIPTION}/Microsoft\.Network/virtualNetworks/[^/\s]+/subnets/[^/\s]+$",
    )
    zone: str = Field("", pattern=r"^[1-9]?$")
    admin_username: str = Field("azureuser", pattern=r"^[a-z][a-z0-9_-]{0,31}$")
    ssh_public_key: str = Field(min_length=16, max_length=4096, pattern=r"^(ssh|ecdsa)-\S+ \S+")
    """Azure makes no Linux machine without one; passwords are switched off."""
    disk_type: AzureDiskType = AzureDiskType.PREMIUM
    disk_size_gib: int = Field(0, ge=0, le=4095, alias="diskSizeGiB")
    """0: as the image says."""
    identity_id: str = Field(
        "",
        alias="identityID",
        pattern=rf"^$|^{_SUBSCRIPTION}/Microsoft\.ManagedIdentity/userAssignedIdentities/[^/\s]+$",
    )

    @field_validator("tags")
    @classmethod
    def _azures(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if _NOT_IN_AZURE.search(name):
                raise refusal(f"tag {name!r}: Azure takes none of <>%&\\?/ in a name: leave it out")
        return value

    @model_validator(mode="after")
    def _check_image(self) -> "AzureConfig":
        if (self.image is None) == (self.image_id == ""):
            raise refusal("name one image: `image` of the marketplace, or `imageID`", "image")
        return self


class AlibabaConfig(Tagged):
    instance_type: str = Field(pattern=r"^ecs\.[a-z0-9-]{1,30}(\.[a-z0-9-]{1,30})+$")
    image_id: str = Field(
        alias="imageID", min_length=3, max_length=128, pattern=r"^[A-Za-z0-9][\w.-]+$"
    )
    v_switch_id: str = Field(alias="vSwitchID", pattern=r"^vsw-[a-z0-9]{6,40}$")
    security_group_ids: list[Annotated[str, StringConstraints(pattern=r"^sg-[a-z0-9]{6,40}$")]] = (
        Field(alias="securityGroupIDs", min_length=1, max_length=16)
    )
    ram_role: str = Field("", max_length=64, pattern=r"^[\w.-]*$")
    key_pair: str = Field("", max_length=128)
    disk_category: str = Field(
        "cloud_essd",
        pattern=r"^(cloud_essd|cloud_essd_entry|cloud_auto|cloud_ssd|cloud_efficiency)$",
    )
    disk_size_gib: int = Field(40, ge=20, le=2048, alias="diskSizeGiB")


CONFIGS: dict[str, type[Model]] = {
    "aws": AwsConfig,
    "azure": AzureConfig,
    "alibaba": AlibabaConfig,
}
LOCAL = "local"
"""The config belongs to the command: any map of names to values."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}")


def config_problems(provider: str, config: Mapping[str, Any]) -> list[str]:
    """List what is wrong with `config`, one sentence each with field, value and remedy."""
    if provider == LOCAL:
        return _local(config)
    model = CONFIGS.get(provider)
    if model is None:
        known = ", ".join([LOCAL, *CONFIGS])
        return [f"provider: {provider!r} makes no machines: write one of {known}"]
    try:
        model.model_validate(dict(config))
    except ValidationError as error:
        return problems(error, model)
    return []


def _local(config: Mapping[str, Any]) -> list[str]:
    wrong = [
        f"{name!r}: is no name of a value: write letters and digits, a letter first"
        for name in config
        if not _NAME.fullmatch(str(name))
    ]
    size = len(json.dumps(dict(config), default=str).encode())
    if size > MOST_CONFIG:
        wrong.append(f"config: {size} bytes as JSON: write {MOST_CONFIG} at most")
    return wrong
