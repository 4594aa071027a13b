"""Inspection of type Job: runs the batch/v1 Job of ConfigMap key `job.yaml` to its end. Pure.

The Job's name derives from the inspection, so a repeated request, also after a crash, gets the same
Job. The set owns the Job, and the cluster deletes it an hour after its end.
"""

from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

import msgspec
import yaml  # type: ignore[import-untyped]

from kubenode.api.base import API_VERSION
from kubenode.api.duration import format_duration
from kubenode.api.v1alpha1 import MachineComponentSet
from kubenode.runtime.kube.objects import KubeObjectMeta
from machine.inspection.port import PASSED, Inspected, InspectionAnswer, InspectionResult
from machine.names import COMPONENTS

KEY = "job.yaml"
SET = "kubenode.io/component-set"
"""Label of a Job: the uid of its MachineComponentSet."""
RETENTION_SECONDS = 3600
"""Seconds after its end for which the cluster keeps a Job."""
STARTS = timedelta(minutes=1)
"""Time past its timeout in which a Job must report its failure."""


class _JobCondition(msgspec.Struct):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class _JobStatus(msgspec.Struct):
    conditions: list[_JobCondition] = []


class InspectionJob(msgspec.Struct):
    """The fields of a Job that tell how it ended."""

    metadata: KubeObjectMeta
    status: _JobStatus = msgspec.field(default_factory=_JobStatus)


class BadJob(ValueError):
    """The ConfigMap does not hold a valid Job. The message says why."""


def job_name(check: str, what: Inspected) -> str:
    """Return the name of the Job for this check in this run."""
    digest = sha256("\0".join((what.uid, what.run, check)).encode()).hexdigest()[:10]
    return f"{what.set[:40].rstrip('-.')}-{digest}".replace(".", "-")


def job_of(text: str, check: str, what: Inspected, timeout: timedelta) -> dict[str, Any]:
    """Return the Job to create. Raises BadJob."""
    try:
        manifest = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise BadJob(f"{KEY} is no YAML: {error}") from error
    if not isinstance(manifest, dict) or not isinstance(manifest.get("spec"), dict):
        raise BadJob(f"{KEY} is no object with a spec: write a batch/v1 Job")
    if (manifest.get("apiVersion"), manifest.get("kind")) != ("batch/v1", "Job"):
        raise BadJob(f"{KEY} is {manifest.get('kind')}, not a batch/v1 Job")
    spec = {
        **manifest["spec"],
        "activeDeadlineSeconds": max(int(timeout.total_seconds()), 1),
        "ttlSecondsAfterFinished": RETENTION_SECONDS,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job_name(check, what),
            "namespace": COMPONENTS,
            "labels": {SET: what.uid},
            "ownerReferences": [_owner(what)],
        },
        "spec": spec,
    }


def _owner(what: Inspected) -> dict[str, Any]:
    kind = MachineComponentSet.resource.kind
    return {"apiVersion": API_VERSION, "kind": kind, "name": what.set, "uid": what.uid}


def ended(job: InspectionJob, timeout: timedelta, now: datetime) -> InspectionAnswer:
    """Return the answer from the Job."""
    name = f"Job {COMPONENTS}/{job.metadata.name}"
    for condition in job.status.conditions:
        if condition.status != "True":
            continue
        if condition.type == "Complete":
            return PASSED
        if condition.type == "Failed":
            why = condition.message or condition.reason
            return InspectionAnswer(InspectionResult.FAILED, f"{name} has failed: {why}")
    made = job.metadata.creation_timestamp
    if made is not None and now >= made + timeout + STARTS:
        after = format_duration(timeout)
        return InspectionAnswer(
            InspectionResult.INCONCLUSIVE, f"{name} has not ended {after} after it was made"
        )
    return InspectionAnswer(InspectionResult.PENDING, f"{name} runs")
