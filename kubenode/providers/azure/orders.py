"""The request body that creates a virtual machine through Azure's resource manager. Pure."""

import base64
from typing import Any

from kubenode.providers.azure.errors import NAME
from kubenode.providers.class_configs import AzureConfig
from kubenode.providers.instances import ErrorCode, InstanceError, InstanceOrder

MOST_USER_DATA = 49152
"""Bytes. Their base64 form has 64 KiB, the limit of customData."""
LONGEST_NAME = 64
NETWORK_API = "2022-11-01"
"""API version of the network card that is created with the machine."""


def request(order: InstanceOrder) -> dict[str, Any]:
    """Build the body of the PUT. Raises InstanceError if the name or the user data is too long."""
    config = AzureConfig.model_validate(dict(order.config))
    if len(order.name) > LONGEST_NAME:
        message = f"name {order.name!r}: Azure takes {LONGEST_NAME} characters"
        raise InstanceError(NAME, ErrorCode.INVALID_ARGUMENT, message)
    if (size := len(order.user_data.encode())) > MOST_USER_DATA:
        message = f"user data of {size} bytes: Azure takes {MOST_USER_DATA}; shorten the class's"
        raise InstanceError(NAME, ErrorCode.INVALID_ARGUMENT, message)
    wanted: dict[str, Any] = {
        "location": config.location,
        "tags": {**config.tags, **order.tags},
        "properties": {
            "hardwareProfile": {"vmSize": config.vm_size},
            "storageProfile": _storage(config),
            "osProfile": _system(config, order),
            "networkProfile": _network(config),
        },
    }
    if config.zone:
        wanted["zones"] = [config.zone]
    if config.identity_id:
        identities: dict[str, Any] = {config.identity_id: {}}
        wanted["identity"] = {"type": "UserAssigned", "userAssignedIdentities": identities}
    return wanted


def _storage(config: AzureConfig) -> dict[str, Any]:
    image = config.image.to_dict() if config.image is not None else {"id": config.image_id}
    disk: dict[str, Any] = {
        "createOption": "FromImage",
        "deleteOption": "Delete",
        "managedDisk": {"storageAccountType": config.disk_type.value},
    }
    if config.disk_size_gib:
        disk["diskSizeGB"] = config.disk_size_gib
    return {"imageReference": image, "osDisk": disk}


def _system(config: AzureConfig, order: InstanceOrder) -> dict[str, Any]:
    user = config.admin_username
    key = {"path": f"/home/{user}/.ssh/authorized_keys", "keyData": config.ssh_public_key}
    return {
        "computerName": order.name,
        "adminUsername": user,
        "customData": base64.b64encode(order.user_data.encode()).decode(),
        "linuxConfiguration": {
            "disablePasswordAuthentication": True,
            "ssh": {"publicKeys": [key]},
        },
    }


def _network(config: AzureConfig) -> dict[str, Any]:
    address = {"name": "node", "properties": {"primary": True, "subnet": {"id": config.subnet_id}}}
    card = {"primary": True, "deleteOption": "Delete", "ipConfigurations": [address]}
    return {
        "networkApiVersion": NETWORK_API,
        "networkInterfaceConfigurations": [{"name": "node", "properties": card}],
    }
