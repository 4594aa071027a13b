"""The messages on the wire, by the numbers of the published contract."""

from typing import Any

import pytest

from machine.autoscaler.contract import (
    MESSAGES,
    METHODS,
    SERVICE,
    GroupInstanceState,
    InstanceErrorClass,
    message_names,
)


def message(name: str, **fields: Any) -> Any:
    return MESSAGES[name](**fields)


GROUP = {"id": "p", "minSize": 1, "maxSize": 3, "debug": "d"}
GROUP_BYTES = b"\x0a\x01p\x10\x01\x18\x03\x22\x01d"
NODE_BYTES = b"\x0a\x01i\x12\x01n"
STATUS = {
    "instanceState": GroupInstanceState.CREATING,
    "errorInfo": {
        "errorCode": "c",
        "errorMessage": "m",
        "instanceErrorClass": InstanceErrorClass.OTHER,
    },
}
INSTANCE_BYTES = b"\x0a\x01i\x12\x0c\x08\x02\x12\x08\x0a\x01c\x12\x01m\x18\x63"
WIRE = [
    (message("NodeGroupsResponse", nodeGroups=[GROUP]), b"\x0a\x0a" + GROUP_BYTES),
    (message("NodeGroupForNodeResponse", nodeGroup=GROUP), b"\x0a\x0a" + GROUP_BYTES),
    (
        message("NodeGroupForNodeRequest", node={"providerID": "i", "name": "n"}),
        b"\x0a\x06" + NODE_BYTES,
    ),
    (message("NodeGroupTargetSizeRequest", id="p"), b"\x0a\x01p"),
    (message("NodeGroupTargetSizeResponse", targetSize=3), b"\x08\x03"),
    (message("NodeGroupIncreaseSizeRequest", id="p", delta=3), b"\x08\x03\x12\x01p"),
    (
        message("NodeGroupDecreaseTargetSizeRequest", id="p", delta=-1),
        b"\x08" + b"\xff" * 9 + b"\x01\x12\x01p",
    ),
    (
        message("NodeGroupDeleteNodesRequest", id="p", nodes=[{"providerID": "i", "name": "n"}]),
        b"\x0a\x06" + NODE_BYTES + b"\x12\x01p",
    ),
    (
        message("NodeGroupNodesResponse", instances=[{"id": "i", "status": STATUS}]),
        b"\x0a\x11" + INSTANCE_BYTES,
    ),
    (
        message("NodeGroupTemplateNodeInfoResponse", nodeInfo=b"x", nodeBytes=b"x"),
        b"\x0a\x01x\x12\x01x",
    ),
    (message("GPULabelResponse", label="l"), b"\x0a\x01l"),
    (
        message("GetAvailableGPUTypesResponse", gpuTypes={"t": MESSAGES["Any"]()}),
        b"\x0a\x05\x0a\x01t\x12\x00",
    ),
]


@pytest.mark.parametrize(("sent", "wire"), WIRE)
def test_message_has_the_numbers_of_the_contract(sent: Any, wire: bytes) -> None:
    assert sent.SerializeToString(deterministic=True) == wire
    assert type(sent).FromString(wire) == sent


def test_unknown_fields_of_newer_versions_are_skipped() -> None:
    labels = b"\x1a\x06\x0a\x01a\x12\x01b"
    node = MESSAGES["ExternalGrpcNode"].FromString(NODE_BYTES + labels)
    assert (node.name, node.providerID) == ("n", "i")


def test_each_method_has_its_messages_and_the_service_its_name() -> None:
    assert SERVICE == "clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider"
    for method in METHODS:
        assert all(name in MESSAGES for name in message_names(method)), method
