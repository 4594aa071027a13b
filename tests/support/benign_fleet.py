"""A healthy fleet for benign life: pools, and what each pool's detectors write while all is well.

Detectors of different vendors say healthy in different ways: node-problem-detector's conditions
are False when all is well, those of the EKS node monitoring agent are True. The names are facts of
the vendors' documentation and configuration, not of our rules.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rules.facts import Value


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of a detector and its two ways of speaking.

    latched  the detector never takes a fault back, so a False is news only after its restart
    """

    type: str
    good: str
    good_reason: str
    bad_reason: str
    message: str = ""
    latched: bool = False

    @property
    def bad(self) -> str:
        return "True" if self.good == "False" else "False"


def _npd(type_: str, good: str, bad: str, message: str = "", latched: bool = False) -> Condition:
    return Condition(type_, "False", good, bad, message, latched)


def _eks(part: str, bad: str) -> Condition:
    return Condition(f"{part}Ready", "True", f"{part}IsReady", bad, f"{part} is monitored")


def _bare(type_: str) -> Condition:
    """A vendor that documents only the type."""
    return Condition(type_, "False", f"No{type_}", type_)


NPD = (
    _npd("KernelDeadlock", "KernelHasNoDeadlock", "DockerHung", "kernel has no deadlock", True),
    _npd("ReadonlyFilesystem", "FilesystemIsNotReadOnly", "FilesystemIsReadOnly", "", True),
    _npd("CorruptDockerOverlay2", "NoCorruptDockerOverlay2", "CorruptDockerOverlay2", "", True),
    _npd("XfsShutdown", "XfsHasNotShutDown", "XfsHasShutdown", "XFS has not shutdown", True),
    _npd("CperHardwareErrorFatal", "CperHardwareHasNoFatalError", "CperHardware", "", True),
    _npd("KubeletUnhealthy", "KubeletIsHealthy", "KubeletUnhealthy"),
    _npd("ContainerRuntimeUnhealthy", "ContainerRuntimeIsHealthy", "ContainerdUnhealthy"),
    _npd("FrequentKubeletRestart", "NoFrequentKubeletRestart", "FrequentKubeletRestart"),
    _npd("FrequentContainerdRestart", "NoFrequentContainerdRestart", "FrequentContainerdRestart"),
    _npd("FrequentUnregisterNetDevice", "NoFrequentUnregisterNetDevice", "UnregisterNetDevice"),
    _npd("NTPProblem", "NTPIsUp", "NTPIsDown", "ntp.service is running"),
)  # fmt: skip
EKS = (
    _eks("Kernel", "ForkFailedOutOfPIDs"),
    _eks("ContainerRuntime", "PodStuckTerminating"),
    _eks("Networking", "IPAMDNotReady"),
    _eks("Storage", "SomethingNew"),
)
EKS_GPU = (*EKS, _eks("AcceleratedHardware", "NvidiaXID31Error"))
AKS = tuple(
    _bare(t)
    for t in (
        "KubeletProblem", "ContainerRuntimeProblem", "FilesystemCorruptionProblem",
        "FrequentKubeletRestart", "FrequentContainerdRestart", "KernelDeadlock",
        "ReadonlyFilesystem", "VMEventScheduled",
    )
)  # fmt: skip
ACK = (
    *(_bare(t) for t in ("RuntimeOffline", "SystemdOffline", "NTPProblem", "ReadonlyFilesystem")),
    Condition("KubeletNotReady", "False", "KubeletReady", "KubeletHung"),
    *(_bare(t) for t in ("NvidiaXID79Error", "NvidiaRemappingRowsFailed")),
)
TKE = tuple(
    _bare(t)
    for t in (
        "KernelDeadlock", "KubeletUnhealthy", "PLEGNotHealthy", "FDPressure", "XFSError",
        "DiskReadOnly", "StuckProcess", "SystemLoadProblem", "NetDeviceProblem",
    )
)  # fmt: skip
CCE = tuple(
    _bare(t)
    for t in (
        "CRIProblem", "KubeProxyProblem", "ConntrackFullProblem", "DiskHung", "DiskReadonly",
        "FDProblem", "MountPointProblem", "LocalPvVolumeGroupStatusError", "NTPProblem",
        "ProcessD", "ProcessZ",
    )
)  # fmt: skip
POOLS: Mapping[str, tuple[Condition, ...]] = {
    "general": NPD,
    "eks": EKS,
    "gpu": EKS_GPU,
    "aks": AKS,
    "ack": ACK,
    "tke": TKE,
    "cce": CCE,
}
"""Pool to the conditions that its detector writes."""

KUBELET = (
    Condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "InsufficientMemory"),
    Condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "KubeletHasDiskPressure"),
    Condition("PIDPressure", "False", "KubeletHasSufficientPID", "KubeletHasInsufficientPID"),
)  # fmt: skip

ANSWERS: Mapping[str, Mapping[str, Value]] = {
    "host": {
        "agent": "alive",
        "kubelet_state": "running",
        "runtime_state": "ok",
        "time_unit": "active",
        "platform": "vm",
        "d_state_process": False,
        "netns_count_high": False,
    },
    "power": {"cloud_state": "running"},
    "write": {"write_test": "ok", "write_test_path": "/"},
    "disk": {"used_pct": 61, "inodes_used_pct": 20, "space_ok": True, "images_unused_bytes": 10**9},
    "clock": {"synchronized": True, "offset_s": 0.002, "boot_clock_wrong": False},
    "peers": {"reachable": True},
    "ready": {
        "gang_pods": False,
        "statefulset_pods": True,
        "pods_stuck_terminating": 0,
        "oldest_pending_s": 0,
    },
}
"""What a host that is well answers."""


@dataclass(frozen=True, slots=True)
class Member:
    name: str
    pool: str
    control_plane: bool
    detector: tuple[Condition, ...]
    labels: Mapping[str, str]

    def look(self, since: Any) -> dict[str, Any]:
        """The Node as it has been since `since`, healthy."""
        conditions = [said(c, "good", since=since) for c in (*KUBELET, *self.detector)]
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "since": since}
        return {"labels": dict(self.labels), "conditions": [ready, *conditions]}


def said(condition: Condition, how: str, **more: Any) -> dict[str, Any]:
    """The condition as its detector writes it; `how` is good or bad."""
    good = how == "good"
    return {
        "type": condition.type,
        "status": condition.good if good else condition.bad,
        "reason": condition.good_reason if good else condition.bad_reason,
        "message": condition.message if good else "",
        **more,
    }


def fleet(rng: random.Random, nodes: int) -> list[Member]:
    """`nodes` members over all pools, three zones and racks of ten; three are control plane."""
    found = []
    pools: Sequence[str] = list(POOLS)
    for index in range(nodes):
        control_plane = index < 3
        pool = "general" if control_plane else pools[index % len(pools)]
        labels = {
            "kubernetes.io/os": "linux",
            "kubernetes.io/hostname": f"n{index}",
            "kubenode.io/pool": pool,
            "topology.kubernetes.io/zone": f"z{rng.randrange(3)}",
            "kubenode.io/rack": f"r{index // 10}",
        }
        if control_plane:
            labels["node-role.kubernetes.io/control-plane"] = ""
        found.append(Member(f"n{index}", pool, control_plane, POOLS[pool], labels))
    return found
