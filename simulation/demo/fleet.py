"""The nodes of the simulated fleet: their location, and the Node object that a kubelet registers.

There are three zones, racks of ten, three pools and three control plane nodes, spread as a careful
operator would spread them. So every limit of the default policy has groups to count. A Node object
has 3 to 5 KB like a small real one, since smaller objects would make the demo look faster.
"""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kubenode.api.meta import format_time

ZONES = ("zone-a", "zone-b", "zone-c")
POOLS = ("general", "general", "general", "general", "memory", "memory", "batch")
"""Weights: four of seven workers are in pool general."""
CONTROL_PLANE = 3
RACK = 10
NAMESPACE = uuid.UUID("8d2f1f0a-52a8-4b0e-9a40-6c5d9b1f7e11")

KERNELS = ("6.1.0-26-amd64", "6.1.0-28-amd64")
IMAGES = (
    ("registry.example/base/pause:3.10", 320_000),
    ("registry.example/net/proxy:1.36", 32_100_000),
    ("registry.example/net/cni:1.9.2", 48_900_000),
    ("registry.example/shop/cart:2.41.0", 181_000_000),
    ("registry.example/shop/checkout:1.17.3", 203_000_000),
    ("registry.example/shop/catalogue:5.0.1", 164_000_000),
    ("registry.example/data/cache:7.4", 41_700_000),
    ("registry.example/obs/node-problem-detector:1.37", 62_400_000),
)


@dataclass(frozen=True, slots=True)
class Place:
    """The name and location of a node."""

    index: int
    name: str
    zone: str
    rack: str
    pool: str
    control_plane: bool

    @property
    def boot_id(self) -> str:
        """Return the boot ID of the first boot: the same for the same fleet, so that runs are
        comparable.
        """
        return str(uuid.uuid5(NAMESPACE, self.name))

    @property
    def address(self) -> str:
        return f"10.{64 + self.index // 62500}.{self.index // 250 % 250}.{self.index % 250 + 1}"

    def labels(self) -> dict[str, str]:
        labels = {
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "node.kubernetes.io/instance-type": "m7.2xlarge",
            "topology.kubernetes.io/region": "eu-1",
            "topology.kubernetes.io/zone": self.zone,
            "kubenode.io/rack": self.rack,
            "kubenode.io/pool": self.pool,
        }
        if self.control_plane:
            labels["node-role.kubernetes.io/control-plane"] = ""
        return labels


def places(nodes: int) -> list[Place]:
    """Return the locations of the nodes, three of them control plane.

    Raises ValueError below six nodes.
    """
    if nodes < 2 * CONTROL_PLANE:
        raise ValueError(f"{nodes} nodes are too few for three zones: give at least 6")
    return list(_places(nodes))


def _places(nodes: int) -> Iterator[Place]:
    in_zone = dict.fromkeys(ZONES, 0)
    for index in range(nodes):
        zone = ZONES[index % len(ZONES)]
        control_plane = index < CONTROL_PLANE
        rack = f"{zone}-r{in_zone[zone] // RACK:03d}"
        in_zone[zone] += 1
        yield Place(
            index=index,
            name=f"cp-{index}" if control_plane else f"n{index:05d}",
            zone=zone,
            rack=rack,
            pool="control-plane" if control_plane else POOLS[index // len(ZONES) % len(POOLS)],
            control_plane=control_plane,
        )


def conditions(now: datetime, since: datetime) -> list[dict[str, str]]:
    """Return the conditions of a kubelet that has been healthy since `since`."""
    healthy = (
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "sufficient PID available"),
        ("Ready", "True", "KubeletReady", "posting ready status"),
    )
    return [
        condition(type_, status, reason, f"kubelet has {message}", heartbeat_at=now, since=since)
        for type_, status, reason, message in healthy
    ]


def condition(
    type_: str, status: str, reason: str, message: str, *, heartbeat_at: datetime, since: datetime
) -> dict[str, str]:
    """Return one Node condition. Its times have whole seconds, as metav1.Time has."""
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": whole_seconds(heartbeat_at),
        "lastTransitionTime": whole_seconds(since),
    }


def whole_seconds(at: datetime) -> str:
    return format_time(at.replace(microsecond=0)).replace(".000Z", "Z")


def node_object(place: Place, now: datetime) -> dict[str, Any]:
    """Return the Node as its kubelet registers it."""
    room = {
        "cpu": "8",
        "memory": "32616468Ki",
        "ephemeral-storage": "101430960Ki",
        "hugepages-2Mi": "0",
        "pods": "110",
    }
    taint = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": place.name,
            "labels": place.labels(),
            "annotations": {
                "node.alpha.kubernetes.io/ttl": "0",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
        },
        "spec": {
            "podCIDR": f"10.{128 + place.index // 256}.{place.index % 256}.0/24",
            "providerID": f"demo:///{place.zone}/i-{place.index:08x}",
            **({"taints": [taint]} if place.control_plane else {}),
        },
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": place.address},
                {"type": "Hostname", "address": place.name},
            ],
            "capacity": room,
            "allocatable": {**room, "cpu": "7910m", "memory": "31592468Ki"},
            "conditions": conditions(now, now),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": node_info(place, place.boot_id),
            "images": [
                {"names": [name, f"{name.rpartition(':')[0]}@sha256:{i:064x}"], "sizeBytes": size}
                for i, (name, size) in enumerate(IMAGES)
            ],
        },
    }


def node_info(place: Place, boot_id: str) -> dict[str, str]:
    return {
        "machineID": place.boot_id.replace("-", ""),
        "systemUUID": str(uuid.uuid5(NAMESPACE, f"machine {place.name}")),
        "bootID": boot_id,
        "kernelVersion": KERNELS[place.index % 5 == 0],
        "osImage": "Debian GNU/Linux 12 (bookworm)",
        "containerRuntimeVersion": "containerd://2.2.1",
        "kubeletVersion": "v1.36.3",
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }
