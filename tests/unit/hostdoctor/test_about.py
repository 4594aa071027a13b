"""What an alert is about, by labels and words, not by a list of names alone."""

import re

import pytest

from kubenode.api.v1alpha1.leaves import AlertLeaf
from kubenode.cli.library import packs
from remedy.hostdoctor.parsers.about import (
    ABOUT,
    DETECTOR,
    DISK,
    GPU,
    KNOWN,
    NAMES,
    OTHER,
    WORKLOAD,
    about,
)
from remedy.hostdoctor.parsers.alerts import host_of
from remedy.hostdoctor.report import ReportedHost

EXPORTER = {"job": "node-exporter", "namespace": "monitoring", "pod": "node-exporter-x7k2p"}


@pytest.mark.parametrize(
    ("labels", "group"),
    [
        ({"alertname": "RackDoorOpen", "node": "a"}, OTHER),
        ({"alertname": "HostTemperatureHigh", "instance": "10.0.0.5:9100", **EXPORTER}, OTHER),
        ({"alertname": "NodeRAIDDegraded", "instance": "10.0.0.5:9100", **EXPORTER}, KNOWN),
        ({"alertname": "GPUXidErrors", "Hostname": "a"}, GPU),
        ({"alertname": "HighTemp", "UUID": "GPU-1", "modelName": "A100", "pod": "train-0"}, GPU),
        ({"alertname": "DcgmExporterSaysSo", "job": "dcgm-exporter", "pod": "dcgm-1"}, GPU),
        ({"alertname": "DiskDying", "job": "smartctl-exporter", "device": "sda"}, DISK),
        ({"alertname": "SmartctlDeviceMediaErrors", "instance": "10.0.0.5:9633"}, DISK),
        ({"alertname": "NodeProblem", "type": "KernelDeadlock", "reason": "DockerHung"}, DETECTOR),
        ({"alertname": "NPDProblem", "type": "x", "reason": "OOMKilling",
          "job": "node-problem-detector", "pod": "npd-1"}, DETECTOR),
        ({"alertname": "KubernetesNodeMemoryPressure", "node": "a", "job": "kube-state-metrics",
          "pod": "monitoring-kube-state-metrics-6d5"}, OTHER),
        ({"alertname": "KubernetesPodPending", "node": "a", "job": "kube-state-metrics",
          "pod": "web-1"}, WORKLOAD),
        ({"alertname": "VolumeFull", "node": "a", "persistentvolumeclaim": "data"}, WORKLOAD),
        ({"alertname": "KubePodCrashLooping", "pod": "web-1", "node": "a"}, WORKLOAD),
        ({"alertname": "TooSlow", "pod": "web-1", "node": "a", "job": "web"}, WORKLOAD),
        ({"alertname": "CiliumDown", "namespace": "kube-system", "pod": "cilium-x", "node": "a",
          "severity": "critical"}, OTHER),
        ({"alertname": "CiliumSlow", "namespace": "kube-system", "pod": "cilium-x", "node": "a",
          "severity": "warning"}, WORKLOAD),
        ({"alertname": "ShopDown", "namespace": "shop", "pod": "shop-x", "node": "a",
          "severity": "critical"}, WORKLOAD),
        ({"alertname": "ContainerMemory", "pod": "web-1", "node": "a", "job": "kubelet"}, WORKLOAD),
        ({"alertname": "ReplicasMissing", "deployment": "web", "node": "a"}, WORKLOAD),
        ({"alertname": "Watchdog", "severity": "none"}, WORKLOAD),
        ({"alertname": "PrometheusBadConfig", "pod": "p-0"}, WORKLOAD),
    ],
)  # fmt: skip
def test_labels_and_words_say_what_it_is_about(labels: dict[str, str], group: str) -> None:
    assert about(labels) == group


def test_names_that_are_known_are_those_that_a_rule_asks_for() -> None:
    asked = [
        leaf.name
        for pack in packs().values()
        for rule in pack
        if rule.spec.when is not None
        for leaf in rule.spec.when.leaves()
        if isinstance(leaf, AlertLeaf) and ABOUT not in leaf.labels
    ]
    alone = {name for name in NAMES if not any(re.fullmatch(each, name) for each in asked)}
    assert not alone


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ({"exported_node": "worker-1", "node": "where-the-exporter-runs"}, "worker-1"),
        ({"Hostname": "worker-1"}, "worker-1"),
        ({"k8s_node_name": "worker-1", "instance": "10.9.9.9:8080"}, "worker-1"),
    ],
)
def test_the_node_is_named_by_the_label_of_what_was_measured(
    labels: dict[str, str], name: str
) -> None:
    assert host_of(labels) == ReportedHost(names=(name,))
