"""Inspection of type Job: a batch/v1 Job of ConfigMap key `job.yaml` runs to its end. Pure.

Its name derives from what is inspected: whoever asks again, after a crash too, finds the same Job.
It belongs to its set, and goes with it; an hour after its end the cluster takes it away.
"""

from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

import msgspec
import yaml  # type: ignore[import-untyped]

from kubenode.api.base import API_VERSION
from kubenode.api.duration import format_duration
from kubenode.api.v1alpha1 import MachineComponentSet
from kubenode.runtime.kube.objects import ObjectMeta
from machine.inspection.port import PASSED, Inspected, InspectionAnswer, InspectionResult
from machine.names import COMPONENTS

KEY = "job.yaml"
SET = "kubenode.io/component-set"
"""Label of a Job: the uid of its MachineComponentSet."""
KEPT_SECONDS = 3600
STARTS = timedelta(minutes=1)
"""How long past its time a Job may take to say that it has failed."""


class _JobCondition(msgspec.Struct):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class _JobStatus(msgspec.Struct):
    conditions: list[_JobCondition] = []


class InspectionJob(msgspec.Struct):
    """A Job, as far as it says how it ended."""

    metadata: ObjectMeta
    status: _JobStatus = msgspec.field(default_factory=_JobStatus)


class BadJob(ValueError):
    """What the ConfigMap holds is no Job that could be made. The message says why."""


def job_name(check: str, what: Inspected) -> str:
    digest = sha256("\0".join((what.uid, what.run, check)).encode()).hexdigest()[:10]
    return f"{what.set[:40].rstrip('-.')}-{digest}".replace(".", "-")


def job_of(text: str, check: str, what: Inspected, timeout: timedelta) -> dict[str, Any]:
    """The Job to create. Raises BadJob."""
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise BadJob(f"{KEY} is no YAML: {error}") from error
    if not isinstance(found, dict) or not isinstance(found.get("spec"), dict):
        raise BadJob(f"{KEY} is no object with a spec: write a batch/v1 Job")
    if (found.get("apiVersion"), found.get("kind")) != ("batch/v1", "Job"):
        raise BadJob(f"{KEY} is {found.get('kind')}, not a batch/v1 Job")
    spec = {
        **found["spec"],
        "activeDeadlineSeconds": max(int(timeout.total_seconds()), 1),
        "ttlSecondsAfterFinished": KEPT_SECONDS,
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
    """What the Job says."""
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
