"""Which status of a Node condition is the faulty one. Pure.

Kubernetes has no field for it. The API conventions recommend conditions that are abnormal when
True on Nodes (`MemoryPressure`), and name `Ready` as the exception; node-problem-detector follows
them. Vendors that state health name it in the type: `NetworkReady`, `DiskHealthy`. So a table comes
first, then the name, then the convention.

Sources: Kubernetes API conventions (typical status properties); kubernetes.io (Node conditions);
node-problem-detector (condition types of its configurations); aws/eks-node-monitoring-agent
pkg/reasons; the Node conditions that GKE documents.
"""

import re

EKS = frozenset(
    {
        "AcceleratedHardwareReady",
        "ContainerRuntimeReady",
        "KernelReady",
        "NetworkingReady",
        "StorageReady",
    }
)
HEALTHY_WHEN_TRUE = EKS | {"Ready", "EtcdIsVoter", "ConfigOK"}
"""Types that are healthy when True. Other known types are healthy when False."""
_HEALTH = re.compile(
    r"(?<!Not)(?:Ready|Healthy|Available|Alive|Online|Connected|Reachable|Synced|Synchronized"
    r"|Succeeded|Initialized|Running|Operational|Established|Configured|Installed|Registered"
    r"|Joined|Attached|Mounted|Valid|Passed|Sufficient|Active|OK|Ok|Up|UpToDate)$"
)
"""Names of health. Their opposites (`Unhealthy`, `NotReady`, `Disconnected`) do not match, because
a name is found with its capital letter, and not after `Not`.
"""
_STATE = re.compile(
    r"^Deprecated"
    r"|(?:Scheduled|InProgress|Pending|Requested|Progressing|Reconciling|Updating|Upgrading"
    r"|Rebooting|Restarting|Starting|Draining|Drained|Cordoned|Terminating|Deleting|Disrupted"
    r"|Drifted|Maintenance|Paused|Planned|Enabled|Disabled|Voter|Leader)$"
)
"""Names of a state that somebody planned or chose, and of advice for the next upgrade."""


def faulty_status(type_: str) -> str:
    """Return the faulty status of a condition type: `True` or `False`; "" if neither is a fault."""
    if type_ in HEALTHY_WHEN_TRUE or _HEALTH.search(type_):
        return "False"
    return "" if _STATE.search(type_) else "True"
