"""The components that write Events, by reason: real Events name them, the format of a case does
not.

These are facts about upstream detectors, not about our rules: node-problem-detector's sources (the
`source` of each shipped monitor configuration), the kubelet, the node controller, and vendors'
agents. For other reasons the component is unknown.
"""

_BY_COMPONENT = {
    "kernel-monitor": (
        "OOMKilling", "TaskHung", "UnregisterNetDevice", "KernelOops", "Ext4Error", "Ext4Warning",
        "IOError", "MemoryReadError", "CperHardwareErrorCorrected",
        "CperHardwareErrorRecoverable", "DockerHung", "KernelHasNoDeadlock", "XfsHasShutdown",
        "CperHardwareErrorFatal",
    ),
    "docker-monitor": ("CorruptDockerImage", "DockerContainerStartupFailure"),
    "systemd-monitor": ("KubeletStart", "DockerStart", "ContainerdStart"),
    "abrt-adaptor": ("CCPPCrash", "UncaughtException", "XorgCrash", "VMcore"),
    "readonly-monitor": ("FilesystemIsReadOnly",),
    "network-custom-plugin-monitor": ("ConntrackFull", "DNSUnreachable"),
    "ntp-custom-plugin-monitor": ("NTPIsDown",),
    "windows-defender-custom-plugin-monitor": ("WindowsDefenderThreatsDetected",),
    "windows-containerd-monitor": (
        "ContainerCreationFailed", "CorruptContainerImageLayer", "HCSEmptyLayerchain",
    ),
    "kubelet": (
        "ImageGCFailed", "FreeDiskSpaceFailed", "EvictionThresholdMet", "InvalidDiskCapacity",
        "Failed", "FailedMount", "FailedCreatePodSandBox", "BackOff", "Pulled", "Created",
        "Started", "SystemOOM",
    ),
    "node-controller": ("NodeNotReady", "NodeReady"),
    "attachdetach-controller": ("FailedAttachVolume",),
    "karpenter": (
        "AwaitingVolumeDetachment", "DisruptionBlocked", "DisruptionLaunching",
        "DisruptionTerminating", "DisruptionWaitingReadiness", "FailedConsistencyCheck",
        "FailedDraining", "InstanceTerminating", "TerminationGracePeriodExpiring",
        "Unconsolidatable",
    ),
    "cluster-autoscaler": ("ScaleDown", "ScaleDownFailed", "ScaleDownEmpty"),
    "aws-node-termination-handler": ("RebalanceRecommendation",),
    "eks-node-monitoring-agent": (
        "SoftLockup", "AppBlocked", "AppCrash", "ApproachingKernelPidMax",
        "ApproachingMaxOpenFiles", "ClockUnsynchronized", "ConntrackExceededKernel",
        "ExcessiveZombieProcesses", "KernelBug", "KubeletFailed", "LivenessProbeFailures",
        "ServiceFailedToStart", "ContainerRuntimeFailed", "MissingDefaultRoutes",
        "MissingIPRoutes", "MissingIPRules", "PPSExceeded", "KubeProxyNotReady", "PortConflict",
        "UnexpectedRejectRule", "LinkLocalExceeded", "BandwidthInExceeded",
        "BandwidthOutExceeded", "ConntrackExceeded", "IPAMDNoIPs", "EFAErrorMetric",
        "NvidiaNCCLError", "NvidiaPCIeError", "NvidiaPageRetirement", "NvidiaPowerError",
        "NvidiaThermalError", "EBSVolumeIOPSExceeded", "EtcHostsMountFailed", "IODelays",
        "XFSSmallAverageClusterSize", "BlockDeviceIOError",
    ),
}  # fmt: skip
ABOUT_PODS = frozenset(
    {
        "ErrImageNeverPull",
        "Evicted",
        "ExceededGracePeriod",
        "Failed",
        "FailedAttachVolume",
        "FailedCreatePodContainer",
        "FailedCreatePodSandBox",
        "FailedDetachVolume",
        "FailedKillPod",
        "FailedMapVolume",
        "FailedMount",
        "FailedPodSandBoxStatus",
        "FailedPostStartHook",
        "FailedPreStopHook",
        "FailedPrepareDynamicResources",
        "FailedSync",
        "FailedUnMount",
        "FailedUnmapDevice",
        "FileSystemResizeFailed",
        "InspectFailed",
        "NetworkNotReady",
        "Preempting",
        "ProbeWarning",
        "UnexpectedAdmissionError",
        "VolumeResizeFailed",
    }
)
"""Reasons of Events about pods instead of Nodes, written by the kubelet
(pkg/kubelet/events/event.go and the admission handlers of Kubernetes 1.31 to 1.37) and the
attach-detach controller.
"""
UNREAD = frozenset({"BackOff", "Unhealthy"})
"""Reasons that the operator does not watch: kubenode.runtime.kube.node_events."""
NORMAL = frozenset(
    {
        "ContainerdStart", "DockerStart", "KubeletStart", "KernelHasNoDeadlock",
        "FilesystemIsNotReadOnly", "NodeAllocatableEnforced", "NodeHasDiskPressure",
        "NodeHasInsufficientMemory", "NodeHasInsufficientPID", "NodeHasNoDiskPressure",
        "NodeHasSufficientMemory", "NodeHasSufficientPID", "NodeNotReady", "NodeNotSchedulable",
        "NodeReady", "NodeSchedulable", "RegisteredNode", "RemovingNode", "Starting",
        "DeletingNode",
    }
)  # fmt: skip
"""Reasons of Events with type Normal: kubelet, node controllers, node-problem-detector."""
_COMPONENT = {reason: name for name, reasons in _BY_COMPONENT.items() for reason in reasons}


def component(reason: str) -> str:
    """Return the `source.component` of an Event with this reason, "" if it is unknown."""
    return _COMPONENT.get(reason, "")


def severity(reason: str) -> str:
    """Return the type of an Event with this reason; Warning if it is unknown."""
    return "Normal" if reason in NORMAL else "Warning"
