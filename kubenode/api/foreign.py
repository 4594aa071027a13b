"""Marks of others on a Node: who else is about to take it down, or at work on it.

Read by the rules' fact `node.foreignOwner` and by Kube Defender, so that both mean the same.
"""

from collections.abc import Iterable, Mapping

DELETION_TAINTS = frozenset(
    {
        "ToBeDeletedByClusterAutoscaler",
        "karpenter.sh/disrupted",  # karpenter v1 drains it
        "karpenter.sh/disruption",  # karpenter before v1
    }
)
"""An autoscaler is about to delete the node."""
SHUTDOWN = "node.cloudprovider.kubernetes.io/shutdown"
"""The cloud says that the machine is off; after our own powerOff it says so too."""
FOREIGN_TAINTS = DELETION_TAINTS | {
    SHUTDOWN,
    "alibabacloud.com/node-needrepair",  # ACK repairs the instance
    "medik8s.io/remediation",  # self-node-remediation
    "medik8s.io/fence-agents-remediation",
    "medik8s.io/drain",  # node-maintenance-operator
}
FOREIGN_ANNOTATIONS: Mapping[str, frozenset[str]] = {
    # machine-config-daemon of OpenShift: its states of an update under way
    "machineconfiguration.openshift.io/state": frozenset({"Working", "Degraded", "Rebooting"}),
    # kured while it drains and boots
    "weave.works/kured-reboot-in-progress": frozenset(),
    # AKS: why it keeps the autoscaler away
    "kubernetes.azure.com/azure-cluster-autoscaler-scale-down-disabled-reason": frozenset(
        {"upgrade"}
    ),
}
"""Annotation to the values that mean it is at work; no values: its presence does."""


def foreign_mark(taints: Iterable[str], annotations: Mapping[str, str]) -> str:
    """The taint or annotation of another owner, "" if there is none. `taints` are keys."""
    for taint in taints:
        if taint in FOREIGN_TAINTS:
            return taint
    for key, busy in FOREIGN_ANNOTATIONS.items():
        if key in annotations and (not busy or annotations[key] in busy):
            return key
    return ""
