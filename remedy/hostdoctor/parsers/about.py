"""Classifies alerts by their labels and names, for rules without a list of alert names. Pure.

    gpu       an accelerator: DCGM exporter, NVIDIA's and AMD's exporters
    disk      a disk reports about itself: smartctl exporter
    detector  a condition or an Event of node-problem-detector, by its metrics problem_gauge and
              problem_counter, which carry `type` and `reason`
    known     rules of the library use it by its name
    workload  pods and their controllers, the control plane, monitoring itself: no node's fault
    other     none of these: people are notified of a firing one about a node

Sources: kubernetes-monitoring/kubernetes-mixin alerts/*.libsonnet, prometheus/node_exporter
docs/node-mixin, NVIDIA/dcgm-exporter (labels UUID, modelName, Hostname, metrics DCGM_FI_*),
prometheus-community/smartctl_exporter (labels device, model_name, serial_number),
kubernetes/node-problem-detector pkg/problemmetrics.
"""

import re
from collections.abc import Mapping

ABOUT = "kubenode_about"
"""Attribute of an alert, beside its labels, with its class."""
GPU, DISK, DETECTOR, KNOWN, WORKLOAD, OTHER = (
    "gpu",
    "disk",
    "detector",
    "known",
    "workload",
    "other",
)
NAMES = frozenset(
    {
        "KubeNodeEviction",
        "KubeNodeNotReady",
        "KubeNodePressure",
        "KubeNodeReadinessFlapping",
        "KubeNodeUnreachable",
        "KubeletClientCertificateExpiration",
        "KubeletClientCertificateRenewalErrors",
        "KubeletPlegDurationHigh",
        "KubeletServerCertificateExpiration",
        "KubeletServerCertificateRenewalErrors",
        "NodeBondingDegraded",
        "NodeCPUHighUsage",
        "NodeClockNotSynchronising",
        "NodeClockSkewDetected",
        "NodeDiskIOSaturation",
        "NodeFileDescriptorLimit",
        "NodeFilesystemAlmostOutOfFiles",
        "NodeFilesystemAlmostOutOfSpace",
        "NodeFilesystemFilesFillingUp",
        "NodeFilesystemSpaceFillingUp",
        "NodeHighNumberConntrackEntriesUsed",
        "NodeMemoryHighUtilization",
        "NodeMemoryMajorPagesFaults",
        "NodeNetworkReceiveErrs",
        "NodeNetworkTransmitErrs",
        "NodeRAIDDegraded",
        "NodeRAIDDiskFailure",
        "NodeSystemSaturation",
        "NodeSystemdServiceCrashlooping",
        "NodeSystemdServiceFailed",
    }
)
"""Alerts that rules of the library use by name: those of kubernetes-mixin and node-mixin."""
CRITICAL = frozenset({"critical", "page"})
"""Values of the label `severity` of alerts that wake people."""
_ACCELERATOR = re.compile(
    r"(?i)dcgm|nvidia|nvlink|nvswitch|\bxid|xid\b|Xid|(?-i:GPU|Gpu)|\bgpu|rocm|amdgpu|neuron|gaudi"
)
_DISK = re.compile(r"(?i)smartctl|smartmon|\bsmart[_A-Z]|SMART|nvme.*(?:wear|spare|critical)")
_NOT_A_NODES = re.compile(
    r"Kube(?:Pod|Container|Deployment|StatefulSet|DaemonSet|ReplicaSet|Job|CronJob|Hpa|PdbNot|Quota"
    r"|CPU|Memory|Persistent|API|Aggregated|Client|Scheduler|ControllerManager|Proxy|Version|State"
    r"|letTooManyPods|letPodStartUp)\w*"
    r"|(?:Prometheus|Alertmanager|ConfigReloader|Thanos|Loki|Grafana|Target)\w*"
    r"|Watchdog|InfoInhibitor|DeadMansSwitch|NodeTextFileCollectorScrapeError"
)
_WORKLOADS = (
    "deployment",
    "statefulset",
    "daemonset",
    "job_name",
    "cronjob",
    "replicaset",
    "persistentvolumeclaim",
    "exported_pod",
)
_OF_HOSTS = re.compile(
    r"(?i)node.?exporter|dcgm|smartctl|problem.?detector|\bnpd\b|ipmi|gpu|nvidia|mdadm|edac"
    r"|redfish|hwmon"
)
"""Exporters, by name of their job or pod, that run in a pod and report about its host: the label
`pod` is not the subject of the alert then, nor is the pod of kube-state-metrics itself.
"""


def _of_the_node(labels: Mapping[str, str]) -> bool:
    """Report whether a critical alert names its node beside a pod of the system, such as a network
    plugin: the node is without what that pod does.
    """
    namespace = labels.get("namespace", "")
    system = namespace == "kube-system" or namespace.endswith("-system")
    return system and bool(labels.get("node")) and labels.get("severity") in CRITICAL


def _pod_of(labels: Mapping[str, str], job: str) -> bool:
    """Report whether the alert is about a pod, and not only reported by one."""
    if _of_the_node(labels):
        return False
    pod = labels.get("pod", "")
    exporter = _OF_HOSTS.search(job) or _OF_HOSTS.search(pod) or "kube-state-metrics" in pod
    return bool(pod) and not exporter


def about(labels: Mapping[str, str]) -> str:
    """Return the class of an alert."""
    name = labels.get("alertname", "")
    if name in NAMES:
        return KNOWN
    if _NOT_A_NODES.fullmatch(name) or labels.get("severity") == "none":
        return WORKLOAD
    job = labels.get("job", "")
    text = " ".join((name, job, labels.get("__name__", "")))
    if _ACCELERATOR.search(text) or ("UUID" in labels and "modelName" in labels):
        return GPU
    if any(labels.get(key) for key in _WORKLOADS):
        return WORKLOAD
    if _pod_of(labels, job):
        return WORKLOAD
    if _DISK.search(text) or ("model_name" in labels and "serial_number" in labels):
        return DISK
    if "type" in labels and "reason" in labels:
        return DETECTOR
    return OTHER
