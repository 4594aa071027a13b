"""Messages of the externalgrpc provider of Cluster Autoscaler, as far as this side uses them.

Package, names and numbers are those of its published contract, cluster-autoscaler/cloudprovider/
externalgrpc/protos/externalgrpc.proto in the repository kubernetes/autoscaler. Fields that are
missing here are skipped when they arrive.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from machine.autoscaler.protobuf import Fields, build_messages

PACKAGE = "clusterautoscaler.cloudprovider.v1.externalgrpc"
SERVICE = f"{PACKAGE}.CloudProvider"

BY_ID: Fields = {"id": "1 string"}
BY_ID_AND_DELTA: Fields = {"delta": "1 int32", "id": "2 string"}
EMPTY: Fields = {}

TABLE: Mapping[str, Fields] = {
    "NodeGroup": {
        "id": "1 string",
        "minSize": "2 int32",
        "maxSize": "3 int32",
        "debug": "4 string",
    },
    "ExternalGrpcNode": {"providerID": "1 string", "name": "2 string"},
    "NodeGroupsRequest": EMPTY,
    "NodeGroupsResponse": {"nodeGroups": "1 repeated NodeGroup"},
    "NodeGroupForNodeRequest": {"node": "1 ExternalGrpcNode"},
    "NodeGroupForNodeResponse": {"nodeGroup": "1 NodeGroup"},
    "GPULabelRequest": EMPTY,
    "GPULabelResponse": {"label": "1 string"},
    "Any": {"type_url": "1 string", "value": "2 bytes"},
    "GetAvailableGPUTypesRequest": EMPTY,
    "GetAvailableGPUTypesResponse": {"gpuTypes": "1 map Any"},
    "CleanupRequest": EMPTY,
    "CleanupResponse": EMPTY,
    "RefreshRequest": EMPTY,
    "RefreshResponse": EMPTY,
    "NodeGroupTargetSizeRequest": BY_ID,
    "NodeGroupTargetSizeResponse": {"targetSize": "1 int32"},
    "NodeGroupIncreaseSizeRequest": BY_ID_AND_DELTA,
    "NodeGroupIncreaseSizeResponse": EMPTY,
    "NodeGroupDeleteNodesRequest": {"nodes": "1 repeated ExternalGrpcNode", "id": "2 string"},
    "NodeGroupDeleteNodesResponse": EMPTY,
    "NodeGroupDecreaseTargetSizeRequest": BY_ID_AND_DELTA,
    "NodeGroupDecreaseTargetSizeResponse": EMPTY,
    "InstanceErrorInfo": {
        "errorCode": "1 string",
        "errorMessage": "2 string",
        "instanceErrorClass": "3 int32",
    },
    "InstanceStatus": {"instanceState": "1 int32", "errorInfo": "2 InstanceErrorInfo"},
    "Instance": {"id": "1 string", "status": "2 InstanceStatus"},
    "NodeGroupNodesRequest": BY_ID,
    "NodeGroupNodesResponse": {"instances": "1 repeated Instance"},
    "NodeGroupTemplateNodeInfoRequest": BY_ID,
    # The Node in the field of versions before 1.35, and as bytes in that of later ones: on the wire
    # a message and its bytes are the same.
    "NodeGroupTemplateNodeInfoResponse": {"nodeInfo": "1 bytes", "nodeBytes": "2 bytes"},
    "NodeGroupAutoscalingOptionsRequest": BY_ID,
    # Without options the autoscaler uses its own.
    "NodeGroupAutoscalingOptionsResponse": EMPTY,
}

METHODS = (
    "NodeGroups",
    "NodeGroupForNode",
    "GPULabel",
    "GetAvailableGPUTypes",
    "Cleanup",
    "Refresh",
    "NodeGroupTargetSize",
    "NodeGroupIncreaseSize",
    "NodeGroupDeleteNodes",
    "NodeGroupDecreaseTargetSize",
    "NodeGroupNodes",
    "NodeGroupTemplateNodeInfo",
    "NodeGroupGetOptions",
)
"""Methods that this side serves. Prices are missing: the contract allows UNIMPLEMENTED for them."""

MESSAGES: Mapping[str, Any] = build_messages(PACKAGE, TABLE)


def message_names(method: str) -> tuple[str, str]:
    """Return the names of request and response of a method."""
    noun = {"NodeGroupGetOptions": "NodeGroupAutoscalingOptions"}.get(method, method)
    return f"{noun}Request", f"{noun}Response"


class GroupInstanceState(IntEnum):
    """State of an instance, by its number in the contract."""

    RUNNING = 1
    CREATING = 2
    DELETING = 3


class InstanceErrorClass(IntEnum):
    """Class of the error of an instance, by its number in Cluster Autoscaler."""

    OUT_OF_RESOURCES = 1
    OTHER = 99
