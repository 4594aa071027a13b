"""Marks of other systems on a Node that they are about to remove or are working on.

The rule fact `node.foreignOwner` and Kube Defender share this code, so that both use the same
definition.

Taints of the Node Readiness Controller (`readiness.k8s.io/`) do not count: that controller keeps
them on a node while a condition is bad, and repairs nothing.
"""

from collections.abc import Iterable, Mapping

DELETION_TAINTS = frozenset(
    {
        "ToBeDeletedByClusterAutoscaler",
        "karpenter.sh/disrupted",  # karpenter v1 drains it
        "karpenter.sh/disruption",  # karpenter before v1
    }
)
"""Taints of autoscalers that are about to delete the node."""
SHUTDOWN = "node.cloudprovider.kubernetes.io/shutdown"
"""Taint of the cloud controller on a machine that is off. It also follows a powerOff step."""
FOREIGN_TAINTS = DELETION_TAINTS | {
    SHUTDOWN,
    "alibabacloud.com/node-needrepair",  # ACK repairs the instance
    "medik8s.io/remediation",  # self-node-remediation
    "medik8s.io/fence-agents-remediation",
    "medik8s.io/drain",  # node-maintenance-operator
    "kubevirt.io/drain",  # KubeVirt and Harvester move virtual machines away
    "autoscaling.cast.ai/draining",  # CAST AI replaces the node
    # AKS node auto-repair and auto-drain, until release 2024-04-11 and since
    "remediator.aks.microsoft.com/unschedulable",
    "remediator.kubernetes.azure.com/unschedulable",
    "cloud.google.com/impending-node-termination",  # GKE: the VM is about to be stopped
    # aws-node-termination-handler drains it, with TAINT_NODE
    "aws-node-termination-handler/asg-lifecycle-termination",
    "aws-node-termination-handler/rebalance-recommendation",
    "aws-node-termination-handler/scheduled-maintenance",
    "aws-node-termination-handler/spot-itn",
}
FOREIGN_ANNOTATIONS: Mapping[str, frozenset[str]] = {
    # machine-config-daemon of OpenShift: its states of an update under way
    "machineconfiguration.openshift.io/state": frozenset({"Working", "Degraded", "Rebooting"}),
    # machine-controller-manager of Gardener is asked to delete the machine
    "node.machine.sapcloud.io/trigger-deletion-by-mcm": frozenset({"true"}),
    # kured while it drains and boots
    "weave.works/kured-reboot-in-progress": frozenset(),
    # AKS: why it keeps the autoscaler away
    "kubernetes.azure.com/azure-cluster-autoscaler-scale-down-disabled-reason": frozenset(
        {"upgrade"}
    ),
    # NVSentinel while it holds the node in quarantine
    "quarantineHealthEvent": frozenset(),
    # GPU Operator of NVIDIA while it upgrades the driver of a node that was cordoned before
    "nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable": frozenset(),
    # Flatcar Linux Update Operator while it drains and boots
    "flatcar-linux-update.v1.flatcar-linux.net/reboot-in-progress": frozenset({"true"}),
}
_DRIVER_UPGRADE = frozenset(
    {
        "cordon-required",
        "wait-for-jobs-required",
        "pod-deletion-required",
        "drain-required",
        "node-maintenance-required",
        "post-maintenance-required",
        "pod-restart-required",
        "validation-required",
        "uncordon-required",
    }
)
"""States of a running upgrade: neither `upgrade-required`, which waits, nor `upgrade-failed`."""
FOREIGN_LABELS: Mapping[str, frozenset[str]] = {
    "dgxc.nvidia.com/nvsentinel-state": frozenset(
        {"quarantined", "draining", "drain-succeeded", "drain-failed", "remediating"}
        | {"remediation-succeeded", "remediation-failed"}
    ),
    # GPU Operator and Network Operator of NVIDIA
    "nvidia.com/gpu-driver-upgrade-state": _DRIVER_UPGRADE,
    "nvidia.com/vgpu-driver-upgrade-state": _DRIVER_UPGRADE,
    "nvidia.com/ofed-driver-upgrade-state": _DRIVER_UPGRADE,
    # CAST AI, with the reason as its value
    "autoscaling.cast.ai/draining": frozenset(),
    # MIG manager of NVIDIA: it stops GPU pods, resets GPUs and perhaps boots
    "nvidia.com/mig.config.state": frozenset({"pending", "rebooting"}),
    # GKE while it maintains the host of a node with GPUs or TPUs
    "cloud.google.com/active-node-maintenance": frozenset({"ONGOING"}),
    # machine-controller-manager of Gardener updates the node in place
    "node.machine.sapcloud.io/selected-for-update": frozenset({"true"}),
    # GKE before it drains for an upgrade or a smaller pool
    "operation.gke.io/type": frozenset({"drain"}),
}
"""Annotations or labels with the values that mark active work. Without values, presence marks it.
"""
DESIRED_DRAIN = "machineconfiguration.openshift.io/desiredDrain"
"""Annotation of OpenShift's machine-config operator: `drain-HASH` from its request for a drain
until it asks for `uncordon-HASH`.
"""


def foreign_mark(
    taints: Iterable[str], annotations: Mapping[str, str], labels: Mapping[str, str]
) -> str:
    """Return the taint, annotation or label of another owner, "" if there is none.

    taints: keys of the taints.
    """
    for taint in taints:
        if taint in FOREIGN_TAINTS:
            return taint
    for marks, known in ((annotations, FOREIGN_ANNOTATIONS), (labels, FOREIGN_LABELS)):
        for key, busy in known.items():
            if key in marks and (not busy or marks[key] in busy):
                return key
    return DESIRED_DRAIN if annotations.get(DESIRED_DRAIN, "").startswith("drain-") else ""
