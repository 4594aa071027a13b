"""Member clusters and releases as the API server stores them, for pages of Captain."""

from datetime import datetime, timedelta
from typing import Any

from support.clock import T0
from support.release_world import make_component, make_pipeline, make_release, make_rule, make_stage

from captain.releases.content import compute_digest, to_canonical_json
from captain.releases.stages import take_snapshot
from captain.site.scene import CaptainScene
from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import MemberCluster, Release, ReleasePipeline
from kubenode.api.v1alpha1.membercluster import PAYLOAD_KINDS

Raw = dict[str, Any]
STAGES = {"test": 0.04, "staging": 0.16, "production": 0.8}
"""Share of the clusters in each stage."""


def make_cluster(name: str, stage: str = "test", now: datetime = T0, **status: Any) -> Raw:
    """A member that answers, but for what `status` changes."""
    conditions = [
        make_condition("Reachable", "True", "Connected"),
        make_condition("Installed", "True", "Installed"),
    ]
    connected = {
        "phase": "Connected",
        "lastContact": format_time(now),
        "version": "v1.34.2",
        "kinds": list(PAYLOAD_KINDS),
        "machines": 5120,
        "credentialsExpireAt": format_time(now + timedelta(days=60)),
        "conditions": conditions,
    }
    return {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "MemberCluster",
        "metadata": {"name": name, "labels": {"stage": stage}},
        "spec": {"kubeconfigRef": name},
        "status": connected | status,
    }


def make_condition(type_: str, status: str, reason: str, message: str = "") -> Raw:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": format_time(T0),
    }


def make_unreachable(
    name: str, stage: str, message: str = "no answer in 5 s", now: datetime = T0
) -> Raw:
    conditions = [make_condition("Reachable", "False", "Timeout", message)]
    return make_cluster(name, stage, now, phase="Unreachable", conditions=conditions)


def name_clusters(count: int) -> dict[str, list[str]]:
    """Names of clusters by stage."""
    return {
        stage: [f"{stage}-{n:03}" for n in range(1, max(1, round(count * share)) + 1)]
        for stage, share in STAGES.items()
    }


def make_clusters(count: int, now: datetime = T0) -> list[Raw]:
    """Clusters of three stages: one unreachable, one paused, one without kinds, one whose
    credential ends.
    """
    stages = name_clusters(count)
    clusters = {
        name: make_cluster(name, stage, now) for stage, names in stages.items() for name in names
    }
    lost, paused, empty, ending = stages["production"][1:5]
    clusters[lost] = make_unreachable(lost, "production", now=now)
    waiting = make_condition("Reachable", "Unknown", "Paused", "spec.paused is true")
    missing = make_condition("Installed", "False", "KindsMissing", "it does not serve NodeRemedier")
    soon = format_time(now + timedelta(days=3))
    clusters[paused]["status"] |= {"phase": "Paused", "conditions": [waiting]}
    clusters[empty]["status"] |= {"kinds": [], "conditions": [missing]}
    clusters[ending]["status"] |= {"credentialsExpireAt": soon}
    return list(clusters.values())


def make_online() -> ReleasePipeline:
    return make_pipeline(
        make_stage("test"),
        make_stage("staging", maxConcurrency="25%", bakeTime="10m"),
        make_stage("production", maxConcurrency=10, approval="Before"),
    )


def make_progress(name: str, phase: str, **more: Any) -> Raw:
    return {"name": name, "phase": phase, **more}


def make_running(count: int, name: str = "rules-7", now: datetime = T0) -> Raw:
    """A release that waits for the approval of production after a failure in staging."""
    release = make_release(make_rule(), make_component(), name=name)
    stages = name_clusters(count)
    previous = to_canonical_json(
        {
            "NodeRemedier/rule": {"labels": {}, "annotations": {}, "spec": {"mode": "DryRun"}},
            "MachineComponent/containerd-2.1.4": None,
        }
    )
    digest = compute_digest(previous)
    done = [make_progress(each, "Succeeded", previous=digest) for each in stages["test"]]
    staging = [make_progress(each, "Succeeded", previous=digest) for each in stages["staging"]]
    staging[0] |= {"phase": "Failed", "reason": "Unhealthy", "evidence": "rule: Ready is False"}
    staging[1] |= {"drift": ["NodeRemedier/rule: spec.mode"]}
    snapshot = take_snapshot(make_online(), release.spec.digest).to_dict()
    raw = release.to_dict()
    raw["status"] = {
        "observedGeneration": 1,
        "phase": "AwaitingApproval",
        "stage": "production",
        "reason": "AwaitingApproval",
        "message": "stage production waits for a person",
        "startedAt": format_time(now - timedelta(hours=1)),
        "snapshot": snapshot | {"joined": ["new-001"], "left": []},
        "stages": [
            {"name": "test", "phase": "Succeeded", "clusters": done},
            {"name": "staging", "phase": "Succeeded", "clusters": staging},
            {
                "name": "production",
                "phase": "AwaitingApproval",
                "clusters": [make_progress(each, "Pending") for each in stages["production"]],
            },
        ],
        "previous": [{"digest": digest, "content": previous}],
    }
    return raw


def make_ended(name: str, phase: str) -> Raw:
    raw = make_release(make_rule(), name=name).to_dict()
    ended = {"phase": phase, "reason": phase, "endedAt": format_time(T0)}
    return raw | {"status": ended}


def build_scene(clusters: list[Raw], releases: list[Raw], now: datetime = T0) -> CaptainScene:
    members = [MemberCluster.model_validate(each) for each in clusters]
    made = [Release.model_validate(each) for each in releases]
    pipeline = make_online()
    return CaptainScene(
        {each.metadata.name: each for each in members},
        {pipeline.metadata.name: pipeline},
        {each.metadata.name: each for each in made},
        now,
    )
