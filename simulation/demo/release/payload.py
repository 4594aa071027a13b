"""The pipeline and the rule that the demo releases. The third version reads an unknown fact."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kubenode.api.base import API_VERSION

PIPELINE, RULE = "online", "disk-nearly-full"
VERSION_LABEL = "version"
OLD, GOOD, BAD = "1", "2", "3"
MEMBERS: Mapping[str, str] = MappingProxyType(
    {"test": "t-01", "staging": "s-01", "production": "p-01"}
)
"""Stage to its only member cluster, in the order of the pipeline."""
BAKE_TIME = "2s"
_CONDITION = {"condition": {"type": "DiskPressure", "status": "True"}}
_EVIDENCE: Mapping[str, dict[str, Any]] = {
    OLD: _CONDITION,
    GOOD: {"condition": {"type": "DiskPressure", "status": "True", "for": "5m"}},
    BAD: {"fact": {"name": "disk.forecast"}},
}


def build_pipeline() -> dict[str, Any]:
    """Return a pipeline that stops at the first failure, and asks a person before production."""
    stages = [
        {"name": stage, "selector": {"matchLabels": {"stage": stage}}, "bakeTime": BAKE_TIME}
        for stage in MEMBERS
    ]
    stages[-1]["approval"] = "Before"
    return {
        "apiVersion": API_VERSION,
        "kind": "ReleasePipeline",
        "metadata": {"name": PIPELINE},
        "spec": {"stages": stages, "failurePolicy": "Pause"},
    }


def build_rule(version: str) -> dict[str, Any]:
    """Return a version of the rule."""
    return {
        "apiVersion": API_VERSION,
        "kind": "NodeRemedier",
        "metadata": {"name": RULE, "labels": {VERSION_LABEL: version}},
        "spec": {
            "mode": "DryRun",
            "severity": "Warning",
            "faultClass": "disk",
            "nodes": {"all": True},
            "when": _EVIDENCE[version],
            "ladder": [{"name": "notify", "steps": [{"notify": {}}]}],
        },
    }
