"""`kubenode release status` and `explain`."""

from collections.abc import Iterator
from typing import Any

import typer

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import Release
from kubenode.api.v1alpha1.release import (
    ApprovalSubject,
    ClusterEvidence,
    ReleaseCluster,
    ReleasePhase,
    ReleaseReason,
    ReleaseStage,
    ReleaseStatus,
)
from kubenode.cli.cluster import connected, require_crds
from kubenode.cli.options import Listing, ReportFormat
from kubenode.cli.release_control import read_release
from kubenode.cli.tables import show, show_report
from kubenode.runtime.kube.lists import decoded
from kubenode.runtime.kube.paths import custom
from kubenode.runtime.release_control import PLURAL

COLUMNS = {
    "RELEASE": "name",
    "PIPELINE": "pipeline",
    "PHASE": "phase",
    "STAGE": "stage",
    "REASON": "reason",
    "CLUSTERS": "clusters",
}
WIDE = {"MESSAGE": "message", "DIGEST": "digest"}
CLUSTER_COLUMNS = {
    "STAGE": "stage",
    "CLUSTER": "cluster",
    "PHASE": "phase",
    "REASON": "reason",
    "EVIDENCE": "evidence",
}
CLUSTER_WIDE = {"DRIFT": "drift"}
REMEDIES = {
    ReleaseReason.CLUSTERS_FAILED: "repair the clusters and `kubenode release resume {name}`, or"
    " `kubenode release rollback {name}`",
    ReleaseReason.DIGEST_MISMATCH: "find out who changed the payload; then `kubenode release"
    " rollback {name}`",
    ReleaseReason.PREVIOUS_TOO_LARGE: "`kubenode release rollback {name}`, and release fewer"
    " objects at once",
    ReleaseReason.CLUSTER_UNREACHABLE: "`kubenode member list` shows why a member does not answer",
    ReleaseReason.APPLY_CONFLICT: "let the other manager give up its fields, or set"
    " spec.onConflict to Force",
    ReleaseReason.PIPELINE_MISSING: "create the ReleasePipeline",
    ReleaseReason.PIPELINE_INVALID: "change the pipeline, or the labels of MemberClusters",
    ReleaseReason.PAYLOAD_CONFLICT: "wait for the other release, or abort or roll it back",
    ReleaseReason.USER: "`kubenode release resume {name}` lets it go on",
    ReleaseReason.DELETED: "`kubenode release rollback {name}` restores what stood there before,"
    " `kubenode release abort {name}` leaves the clusters as they are; then it is removed",
    ReleaseReason.ABORTED: "`kubenode release rollback {name}` restores what stood there before",
    ReleaseReason.NOT_HEALTHY_YET: "look at the named objects in the cluster",
    ReleaseReason.HEALTH_TIMEOUT: "look at the named objects in the cluster;"
    " `kubenode release resume {name}` begins the time anew, `kubenode release rollback {name}`"
    " takes the release back",
    ReleaseReason.STAGE_UNPROVEN: "`kubenode release abort {name}` or `kubenode release rollback"
    " {name}`, and release through a pipeline without this stage",
    ReleaseReason.EVIDENCE_MISSING: "wait: status.dryRun of the named rules in the cluster has the"
    " evidence so far",
    ReleaseReason.WINDOW_CLOSED: "wait until a window opens, or change `windows` of the pipeline",
    ReleaseReason.REPAIRS_NEED_BUDGET: "wait until the repairs have ended, or let Kube Defender's"
    " breaker be reset in the cluster",
}


async def show_status(
    name: str, output: Listing, kubeconfig: str | None, context: str | None
) -> None:
    """Print all releases, or the clusters of one."""
    async with connected(kubeconfig, context) as kube:
        if name:
            release = await read_release(kube, name)
            show(
                list(_list_clusters(release)), CLUSTER_COLUMNS, CLUSTER_WIDE, output, key="cluster"
            )
            return
        await require_crds(kube, {PLURAL})
        releases = [each async for each in decoded(kube, custom(PLURAL), Release.from_server)]
    if not releases and output in (Listing.TABLE, Listing.WIDE):
        typer.echo("no Releases; create one with `kubenode release start`")
        return
    show([build_row(each) for each in releases], COLUMNS, WIDE, output, Release.__name__)


def build_row(release: Release) -> dict[str, Any]:
    status = release.status
    clusters = [cluster for stage in status.stages for cluster in stage.clusters]
    settled = sum(cluster.phase.settled for cluster in clusters)
    return {
        "name": release.metadata.name,
        "pipeline": release.spec.pipeline_ref,
        "phase": status.phase or ReleasePhase.PENDING,
        "stage": status.stage,
        "reason": status.reason or "",
        "clusters": f"{settled}/{len(clusters)}" if clusters else "",
        "message": status.message,
        "digest": release.spec.digest,
    }


def _list_clusters(release: Release) -> Iterator[dict[str, Any]]:
    for stage in release.status.stages:
        for cluster in stage.clusters:
            yield {
                "stage": stage.name,
                "cluster": cluster.name,
                "phase": cluster.phase,
                "reason": cluster.reason or "",
                "evidence": cluster.evidence,
                "drift": ", ".join(cluster.drift),
            }


async def explain_release(
    name: str, output: ReportFormat, kubeconfig: str | None, context: str | None
) -> None:
    """Print why the release waits, stopped or ended."""
    async with connected(kubeconfig, context) as kube:
        release = await read_release(kube, name)
    data = {**build_row(release), "clusters": list(_list_clusters(release))}
    show_report(data, output, lambda: describe_release(release))


def describe_release(release: Release) -> Iterator[str]:
    """Yield the lines for people."""
    name, status = release.metadata.name, release.status
    if status.phase is None or status.reason is None:
        yield f"Release {name}: Captain has not observed it; does `kubenode run captain` run?"
        return
    yield f"Release {name}: {status.phase}, {status.reason}"
    if status.message:
        yield f"  {status.message}"
    if status.rollback is not None:
        yield f"  it returns to what stood there before, because of {status.rollback}"
    yield from _describe_failures(status)
    for stage in status.stages:
        yield from _describe_stage(stage)
    yield from _describe_changes(release)
    if remedy := REMEDIES.get(status.reason):
        yield f"to go on: {remedy.format(name=name)}"


def _describe_failures(status: ReleaseStatus) -> Iterator[str]:
    """Yield the evidence of the last stop, unless the clusters still show it."""
    if not status.failures or status.stop is not None:
        return
    yield f"it last stopped by itself at {format_time(status.failures[0].at)}:"
    for failure in status.failures:
        text = f"{failure.reason}: {failure.evidence}"
        yield f"  stage {failure.stage}, {failure.cluster}: {text}"


def _describe_stage(stage: ReleaseStage) -> Iterator[str]:
    until = f" until {format_time(stage.bake_until)}" if stage.bake_until is not None else ""
    yield f"stage {stage.name}: {stage.phase}{until if stage.phase == 'Baking' else ''}"
    for cluster in stage.clusters:
        if cluster.reason is not None or cluster.drift:
            yield f"  {_describe_cluster(cluster)}"
        if cluster.dry_run is not None:
            yield f"    {_describe_evidence(cluster, cluster.dry_run)}"


def _describe_cluster(cluster: ReleaseCluster) -> str:
    return f"{cluster.name}: {cluster.phase}, {cluster.reason}: {cluster.evidence}"


def _describe_evidence(cluster: ReleaseCluster, evidence: ClusterEvidence) -> str:
    acts = (
        "" if cluster.enforced_at is None else f"; Enforce since {format_time(cluster.enforced_at)}"
    )
    nodes = f" ({', '.join(evidence.node_names)})" if evidence.node_names else ""
    return (
        f"{cluster.name}: in DryRun since {format_time(evidence.since)}: {evidence.firings} firings"
        f" on {evidence.nodes} nodes, {evidence.recovered_alone} recovered alone,"
        f" {evidence.conflicts} with another rule{nodes}{acts}"
    )


def _describe_changes(release: Release) -> Iterator[str]:
    snapshot = release.status.snapshot
    if snapshot is not None and snapshot.joined:
        yield f"joined since the start, and not changed: {', '.join(snapshot.joined)}"
    if snapshot is not None and snapshot.departed:
        yield f"left since the start: {', '.join(snapshot.departed)}"
    for entry in release.spec.approvals:
        at = f" at {format_time(entry.at)}" if entry.at is not None else ""
        subject = "" if entry.subject is ApprovalSubject.START else f" {entry.subject}"
        yield f"stage {entry.stage} approved{subject} by {entry.by}{at}"
