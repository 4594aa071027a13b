"""`kubenode release skip`."""

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import Release
from kubenode.api.v1alpha1.release import (
    ClusterPhase,
    ReleaseCluster,
    ReleaseStage,
    ReleaseState,
    StagePhase,
)
from kubenode.cli.cluster import connected
from kubenode.cli.exits import Refusal, say
from kubenode.cli.pause import caller
from kubenode.cli.release_control import read_release
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Conflict
from kubenode.runtime.kube.paths import custom

TRIES = 5


async def skip_cluster(
    name: str, cluster: str, why: str, kubeconfig: str | None, context: str | None
) -> None:
    """Leave a cluster out of a release, as the user of the connection. Raises Refusal."""
    if not why.strip():
        raise Refusal("--why is empty: say why the release may go on without the cluster")
    async with connected(kubeconfig, context) as kube:
        by = await caller(kube)
        for _ in range(TRIES):
            release = await read_release(kube, name)
            if problem := find_skip_objection(release, cluster):
                raise Refusal(f"Release {name}: {problem}")
            try:
                await _write_skip(kube, release, {"cluster": cluster, "why": why, "by": by})
            except Conflict:
                continue  # Captain writes the status often
            say(f"Release {name}: cluster {cluster} is skipped")
            if release.status.stop is not None:
                say(f"it is paused: `kubenode release resume {name}` lets it go on")
            return
    raise Refusal(f"Release {name} changes too often: try again")


async def _write_skip(kube: Kube, release: Release, skip: dict[str, str]) -> None:
    entry = {**skip, "at": format_time(kube.clock.now())}
    body = {
        "metadata": {"resourceVersion": release.metadata.resource_version},
        "spec": {"skips": [*(each.to_dict() for each in release.spec.skips), entry]},
    }
    await kube.patch(custom(Release.resource.plural, release.metadata.name), body)


def find_skip_objection(release: Release, cluster: str) -> str:
    """Return why a skip would change nothing or is not accepted, "" if it would."""
    status = release.status
    if status.phase is not None and status.phase.ended:
        return f"it has ended, {status.phase}"
    if status.rollback is not None or release.spec.state is ReleaseState.ROLLBACK:
        return "it rolls back, and restores every cluster that it changed"
    if status.snapshot is None:
        return "it has not started; label the MemberCluster so that no stage selects it"
    for stage in status.stages:
        for each in stage.clusters:
            if each.name == cluster:
                return _object_to(release, stage, each)
    return (
        f"it has no cluster {cluster}; `kubenode release status {release.metadata.name}` lists them"
    )


def _object_to(release: Release, stage: ReleaseStage, cluster: ReleaseCluster) -> str:
    given = {skip.cluster for skip in release.spec.skips}
    if cluster.phase is ClusterPhase.SKIPPED or cluster.name in given:
        return f"cluster {cluster.name} is skipped already"
    if stage.phase is StagePhase.SUCCEEDED:
        return f"stage {stage.name} of cluster {cluster.name} has succeeded"
    others = [each for each in stage.clusters if each.name != cluster.name]
    if all(each.phase is ClusterPhase.SKIPPED or each.name in given for each in others):
        return (
            f"cluster {cluster.name} is the last of stage {stage.name}, and without it nothing"
            " would show that the release works: abort it, and release through a pipeline without"
            " this stage"
        )
    return ""
