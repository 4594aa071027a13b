"""Condition types that detectors are known to write. rules.polarity has their polarity.

Sources: kubernetes.io (Node conditions); node-problem-detector config/ (Apache-2.0);
aws/eks-node-monitoring-agent pkg/reasons (Apache-2.0); MicrosoftDocs/azure-aks-docs (CC BY 4.0);
NVIDIA/NVSentinel (Apache-2.0); names in the documentation of Alibaba ACK, Tencent TKE and Huawei
CCE.
"""

import difflib
from collections.abc import Collection

from rules.lint.name_tables import split_names
from rules.polarity import EKS

KUBELET = frozenset({"Ready", "MemoryPressure", "DiskPressure", "PIDPressure"})
OTHERS_OF_KUBERNETES = frozenset({"NetworkUnavailable", "OutOfDisk", "EtcdIsVoter"})
NPD = split_names(
    "NTPProblem DiskBadBlock CorruptDockerOverlay2 ContainerRuntimeUnhealthy KubeletUnhealthy"
    " FrequentUnregisterNetDevice KernelDeadlock XfsShutdown CperHardwareErrorFatal"
    " ReadonlyFilesystem FrequentKubeletRestart FrequentDockerRestart FrequentContainerdRestart"
    " KubeProxyUnhealthy"
)
AKS = split_names(
    "FilesystemCorruptionProblem KubeletProblem ContainerRuntimeProblem VMEventScheduled GPUMissing"
    " NVLinkStatusInactive XIDErrors IBLinkFlapping GPUClockThrottling"
    " UnhealthyNvidiaDevicePlugin"
)
ACK = split_names(
    "KubeletNotReady RuntimeOffline SystemdOffline NvidiaDeviceLost NvidiaInfoRomCorrupted"
    " NvidiaPowerCableErr NvidiaPendingRetiredPages NvidiaRemappingRowsFailed"
    " NvidiaRemappingRowsRequireReset"
) | frozenset(f"NvidiaXID{code}Error" for code in (44, 48, 61, 62, 69, 74, 79, 95, 119, 120, 140))
NVSENTINEL = split_names(
    "GpuMemWatch GpuThermalWatch GpuPcieWatch GpuPowerWatch GpuInforomWatch GpuSmWatch"
    " GpuNvlinkWatch GpuMcuWatch GpuPmuWatch GpuDriverWatch SysLogsXIDError SysLogsSXIDError"
    " SysLogsGPUFallenOff NVSwitchFatalError NVSwitchDown"
)
TKE = split_names(
    "ConnectApiServer ConntrackProblem ContainerRuntimeInterfaceUnhealthy ContainerdProblem"
    " ContainerdRuntimeUnhealthy CustomPIDPressure DiskReadOnly DockerdProblem FDProblem"
    " GPUDeviceLost GPUDoubleBitEccError GPUHighSingleBitEccError GPUInfoROMCorrupted"
    " GPUNvlinkError GPUPCIeError GPUPendingRetiredPages GPUPowerError GPURemappingRowsError"
    " GPUTempError GPUXIDFatalError GPUXIDWarningError HasGhostContainer NetDeviceProblem"
    " OverlayDiskPressure PLEGNotHealthy ProcessProblem StuckProcess SystemLoadProblem"
    " ThreadPressure XFSError FDPressure RuntimeUnhealthy"
)
CCE = split_names(
    "CNIProblem CRIProblem KubeProxyProblem ConntrackFullProblem DiskProblem MemoryProblem"
    " PIDProblem DiskReadonly EmptyDirVolumeGroupStatusError LocalPvVolumeGroupStatusError"
    " MountPointProblem DiskHung DiskSlow ProcessD ProcessZ RDMAProblem ResolvConfFileProblem"
    " ScheduledEvent SpotPriceNodeReclaimNotification"
)
OURS = split_names(
    "ConntrackTableFull CPUThermalThrottling NetworkLinkFlapping BondDegraded DiskSMARTProblem"
    " CertificateExpiring InotifyProblem MemoryContentionPressure DiskContentionPressure"
    " CPUContentionPressure FrequentUnitRestart RebootRequired"
)
"""Types of the agent for which no vendor has a name. For others it uses the vendor's name."""
KNOWN = KUBELET | OTHERS_OF_KUBERNETES | NPD | EKS | AKS | ACK | NVSENTINEL | TKE | CCE | OURS

LATCHED = (
    split_names(
        "KernelDeadlock ReadonlyFilesystem XfsShutdown CperHardwareErrorFatal DiskBadBlock"
        " CorruptDockerOverlay2"
    )
    | EKS
)
"""Types that a log line sets and that stay set until the detector restarts.

node-problem-detector's SystemLogMonitor never clears a permanent condition. For the EKS node
monitoring agent see its issues 215 and 250.
"""


def near(name: str, more: Collection[str] = ()) -> str:
    """Return the known type that is most similar to `name`; "" if none is similar."""
    known = {known.lower(): known for known in (*KNOWN, *more)}
    matches = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.75)
    return known[matches[0]] if matches else ""
