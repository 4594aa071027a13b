"""Moves a release forward through its current stage. Pure.

The order in a stage:

- approve: a stage with approval Before starts when a person has approved it.
- observe: each cluster that was changed is judged by its own objects. Rules that need evidence are
  in DryRun until it is complete, and are then applied once more (captain.releases.enforcement).
- stop: at `maxFailures` the release stops or rolls back, and changes nothing more. It stops, too,
  when a cluster is not healthy in time.
- start: clusters in their order, at most `maxConcurrency` at once, none while no window is open,
  and none while repairs need the budget of a cluster, if the stage says so. What stood there before
  is stored with phase Applying, before the first write.
- bake: once all clusters are settled. The stage succeeds when its clusters are healthy at the end.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice

from captain.releases.content import compute_digest, extract_content
from captain.releases.enforcement import ClusterRules, is_approved
from captain.releases.health import ClusterHealth, judge_cluster
from captain.releases.model import (
    EVIDENCE_LENGTH,
    MESSAGE_LENGTH,
    MemberObservation,
    ReleaseDecision,
    ReleaseWorld,
    replace_cluster,
    replace_stage,
)
from captain.releases.skips import find_unproven
from captain.releases.stages import find_stage
from captain.releases.windows import find_closed_window
from kubenode.api.duration import format_duration
from kubenode.api.meta import format_time
from kubenode.api.names import list_first
from kubenode.api.readiness import Progress
from kubenode.api.share import share_of
from kubenode.api.v1alpha1 import Release
from kubenode.api.v1alpha1.release import (
    MOST_FAILURES,
    PREVIOUS_LENGTH,
    ApprovalSubject,
    ClusterFailure,
    ClusterPhase,
    PreviousContent,
    ReleaseCluster,
    ReleaseReason,
    ReleaseStage,
    ReleaseStatus,
    ReleaseStop,
    StagePhase,
)
from kubenode.api.v1alpha1.releasepipeline import (
    OnUnreachable,
    PipelineStage,
    ReleaseFailurePolicy,
    StageApproval,
)

UNREACHABLE_TIMEOUT = timedelta(minutes=2)
"""Time after which `onUnreachable` Skip and Fail apply."""
MOST_PREVIOUS = 524288
"""Characters of all previous contents of a release. etcd stores objects of up to 1.5 MB."""
MOST_CONTENTS = 64
"""Different previous contents of a release."""
SHOWN = 5
HOLDS = (ReleaseReason.WINDOW_CLOSED, ReleaseReason.REPAIRS_NEED_BUDGET)
"""Reasons why a cluster that could start does not."""
IN_FLIGHT = (ClusterPhase.APPLYING, ClusterPhase.VERIFYING)


class PreviousTooLargeError(Exception):
    """The contents that a rollback would need do not fit into the status."""


def move_forward(release: Release, status: ReleaseStatus, world: ReleaseWorld) -> ReleaseDecision:
    """Return the next status of a release that runs, and the clusters to write to."""
    stage = find_stage(status.stages)
    assert status.snapshot is not None
    if stage is None:
        return ReleaseDecision(status)
    settings = next(each for each in status.snapshot.stages if each.name == stage.name)
    return StageMove(release, status, settings, world).run(stage)


@dataclass(slots=True)
class StageMove:
    """One move of the current stage.

    status: grows by the previous contents of the clusters that start.
    """

    release: Release
    status: ReleaseStatus
    settings: PipelineStage
    world: ReleaseWorld

    def run(self, stage: ReleaseStage) -> ReleaseDecision:
        if stage.phase in (StagePhase.PENDING, StagePhase.AWAITING_APPROVAL):
            if not self._is_approved(stage):
                return self._store(_with_phase(stage, StagePhase.AWAITING_APPROVAL))
            stage = _with_phase(stage, StagePhase.RUNNING)
        stage = self._observe(stage)
        if stop := self._find_stop(stage):
            return self._stop(stage, stop)
        try:
            stage = self._start(stage)
        except PreviousTooLargeError as error:
            stop = ReleaseStop(reason=ReleaseReason.PREVIOUS_TOO_LARGE, message=str(error))
            return self._stop(stage, stop)
        if not all(cluster.phase.settled for cluster in stage.clusters):
            return self._store(stage)
        if stop := find_unproven(stage):
            return self._stop(stage, stop)
        return self._store(self._bake(stage))

    def _is_approved(self, stage: ReleaseStage) -> bool:
        if self.settings.approval is StageApproval.NONE:
            return True
        return is_approved(self.release, stage.name, ApprovalSubject.START)

    def _store(self, stage: ReleaseStage) -> ReleaseDecision:
        applies = {
            cluster.name: self._rules(cluster).build_objects(observation.objects)
            for cluster in stage.clusters
            if cluster.phase is ClusterPhase.APPLYING
            and cluster.unreachable_since is None
            and (observation := self.world.observations.get(cluster.name)) is not None
        }
        return ReleaseDecision(replace_stage(self.status, stage), applies)

    def _rules(self, cluster: ReleaseCluster) -> ClusterRules:
        return ClusterRules.of(self.release, self.status, self.settings, cluster)

    # -- observe ----------------------------------------------------------------------------------

    def _observe(self, stage: ReleaseStage) -> ReleaseStage:
        for cluster in stage.clusters:
            observation = self.world.observations.get(cluster.name)
            if cluster.name not in self.world.labels:
                stage = replace_cluster(stage, _remove(cluster))
            elif observation is not None:
                stage = replace_cluster(stage, self._judge(cluster, observation))
        return stage

    def _judge(self, cluster: ReleaseCluster, observation: MemberObservation) -> ReleaseCluster:
        if cluster.phase is ClusterPhase.SKIPPED:
            return cluster
        if observation.unreachable:
            return self._judge_unreachable(cluster, observation.unreachable)
        if cluster.unreachable_since is not None:
            cluster = _return_reachable(cluster, self.world.now)
        rules, objects = self._rules(cluster), observation.objects
        if cluster.phase is ClusterPhase.APPLYING:
            return rules.recheck(objects)
        if cluster.phase not in (ClusterPhase.VERIFYING, ClusterPhase.SUCCEEDED):
            return cluster
        health = judge_cluster(rules.payload, cluster.relapsed, objects)
        cluster = _apply_health(cluster, health, self.world.now)
        if cluster.phase is not ClusterPhase.SUCCEEDED:
            return cluster
        return replace(rules, cluster=cluster).judge(objects, self.world.now)

    def _judge_unreachable(self, cluster: ReleaseCluster, why: str) -> ReleaseCluster:
        since = cluster.unreachable_since or self.world.now
        phase = cluster.phase
        if self.world.now - since >= UNREACHABLE_TIMEOUT:
            phase = _phase_of_unreachable(self.settings.on_unreachable, phase)
        return cluster.model_copy(
            update={
                "phase": phase,
                "reason": ReleaseReason.CLUSTER_UNREACHABLE,
                "evidence": why[:EVIDENCE_LENGTH],
                "unreachable_since": since,
            }
        )

    # -- stop -------------------------------------------------------------------------------------

    def _find_stop(self, stage: ReleaseStage) -> ReleaseStop | None:
        failed = [each for each in stage.clusters if each.phase is ClusterPhase.FAILED]
        counted = sum(each.phase is not ClusterPhase.SKIPPED for each in stage.clusters)
        limit = max(1, share_of(self.settings.max_failures, len(stage.clusters)))
        if not failed or len(failed) < min(limit, counted):
            return self._find_timeout(stage)
        names = list_first((each.name for each in failed), SHOWN)
        message = f"stage {stage.name}: {names} failed: {failed[0].evidence}"
        return ReleaseStop(reason=ReleaseReason.CLUSTERS_FAILED, message=message[:MESSAGE_LENGTH])

    def _find_timeout(self, stage: ReleaseStage) -> ReleaseStop | None:
        late = [each for each in stage.clusters if self._is_late(each)]
        if not late:
            return None
        timeout = format_duration(self.settings.health_timeout)
        texts = (
            f"{each.name}: since {format_time(each.not_healthy_since)}: {each.evidence}"
            for each in late
            if each.not_healthy_since is not None
        )
        message = f"stage {stage.name}: not healthy within {timeout}: {list_first(texts, SHOWN)}"
        return ReleaseStop(reason=ReleaseReason.HEALTH_TIMEOUT, message=message[:MESSAGE_LENGTH])

    def _is_late(self, cluster: ReleaseCluster) -> bool:
        timeout, since = self.settings.health_timeout, cluster.not_healthy_since
        if cluster.reason is not ReleaseReason.NOT_HEALTHY_YET or since is None or not timeout:
            return False
        return self.world.now - since >= timeout

    def _stop(self, stage: ReleaseStage, stop: ReleaseStop) -> ReleaseDecision:
        status = replace_stage(self.status, stage)
        assert status.snapshot is not None
        changes: dict[str, object] = {"stop": stop}
        rolls_back = status.snapshot.failure_policy is ReleaseFailurePolicy.ROLLBACK
        if stop.reason is ReleaseReason.CLUSTERS_FAILED and rolls_back:
            changes = {"rollback": stop.reason}
        if failures := self._list_failures(stage, stop):
            changes["failures"] = failures
        return ReleaseDecision(status.model_copy(update=changes))

    def _list_failures(self, stage: ReleaseStage, stop: ReleaseStop) -> list[ClusterFailure]:
        """Return the evidence of the causes, which a rollback and another try clear elsewhere."""
        causes: Iterable[ReleaseCluster] = ()
        if stop.reason is ReleaseReason.CLUSTERS_FAILED:
            causes = (each for each in stage.clusters if each.phase is ClusterPhase.FAILED)
        elif stop.reason is ReleaseReason.HEALTH_TIMEOUT:
            causes = filter(self._is_late, stage.clusters)
        return [
            ClusterFailure(
                stage=stage.name,
                cluster=each.name,
                reason=each.reason,
                evidence=each.evidence,
                at=self.world.now,
            )
            for each in islice(causes, MOST_FAILURES)
        ]

    # -- start ------------------------------------------------------------------------------------

    def _start(self, stage: ReleaseStage) -> ReleaseStage:
        stage, (reason, hold) = _end_holds(stage), self._find_hold(stage)
        for cluster in list(list_startable(stage, self.settings)):
            observation = self.world.observations.get(cluster.name)
            if observation is None or observation.unreachable:
                continue
            changes: dict[str, object] = {
                "reason": reason,
                "evidence": hold[:EVIDENCE_LENGTH],
            }
            if not hold:
                previous = cluster.previous or self._record(observation)
                changes = {"phase": ClusterPhase.APPLYING, "previous": previous}
            stage = replace_cluster(stage, cluster.model_copy(update=changes))
        return stage

    def _find_hold(self, stage: ReleaseStage) -> tuple[ReleaseReason, str]:
        """Return why no cluster starts now, with reason and text. "": one may start."""
        assert self.status.snapshot is not None
        if closed := find_closed_window(self.settings, self.status.snapshot, self.world):
            return ReleaseReason.WINDOW_CLOSED, closed
        return ReleaseReason.REPAIRS_NEED_BUDGET, self._find_breaker(stage)

    def _find_breaker(self, stage: ReleaseStage) -> str:
        for cluster in stage.clusters:
            observation = self.world.observations.get(cluster.name)
            if observation is not None and observation.breakers:
                return f"{cluster.name}: {observation.breakers[0]}"
        return ""

    def _record(self, observation: MemberObservation) -> str:
        """Store what stands in the cluster now and return its digest.

        Raises PreviousTooLargeError.
        """
        keys = [each.key for each in self.release.spec.payload]
        content = extract_content(observation.objects, keys)
        digest, contents = compute_digest(content), self.status.previous
        if any(each.digest == digest for each in contents):
            return digest
        total = sum(len(each.content) for each in contents) + len(content)
        if (
            len(content) > PREVIOUS_LENGTH
            or total > MOST_PREVIOUS
            or len(contents) == MOST_CONTENTS
        ):
            raise PreviousTooLargeError(
                "the objects that stand in the clusters differ too much or are too large to be"
                f" stored for a rollback ({MOST_CONTENTS} contents, {MOST_PREVIOUS} characters"
                " together): release fewer objects or to fewer clusters at once"
            )
        added = [*contents, PreviousContent(digest=digest, content=content)]
        self.status = self.status.model_copy(update={"previous": added})
        return digest

    # -- bake -------------------------------------------------------------------------------------

    def _bake(self, stage: ReleaseStage) -> ReleaseStage:
        now = self.world.now
        until = stage.bake_until
        if stage.phase is not StagePhase.BAKING or until is None:
            until = now + self.settings.bake_time
            changes = {"phase": StagePhase.BAKING, "bake_until": until}
            stage = stage.model_copy(update=changes)
        if now < until or any(self._is_unproven(cluster) for cluster in stage.clusters):
            return stage
        return _with_phase(stage, StagePhase.SUCCEEDED)

    def _is_unproven(self, cluster: ReleaseCluster) -> bool:
        """Return whether a succeeded cluster has not been observed healthy in this move."""
        if cluster.phase is not ClusterPhase.SUCCEEDED or cluster.name not in self.world.labels:
            return False
        if cluster.unreachable_since is not None:
            return self.settings.on_unreachable is not OnUnreachable.SKIP
        return cluster.reason is not None or cluster.name not in self.world.observations


def _end_holds(stage: ReleaseStage) -> ReleaseStage:
    """Return the stage without the reasons of an earlier hold."""
    for cluster in stage.clusters:
        if cluster.reason in HOLDS:
            changes = {"reason": None, "evidence": ""}
            stage = replace_cluster(stage, cluster.model_copy(update=changes))
    return stage


def list_startable(stage: ReleaseStage, settings: PipelineStage) -> Iterator[ReleaseCluster]:
    """Yield the pending clusters that may start now. An unreachable one keeps its turn."""
    in_flight = sum(each.phase in IN_FLIGHT for each in stage.clusters)
    slots = max(1, share_of(settings.max_concurrency, len(stage.clusters))) - in_flight
    pending = [each for each in stage.clusters if each.phase is ClusterPhase.PENDING]
    yield from pending[: max(0, slots)]


def retry_failed(stages: Sequence[ReleaseStage]) -> list[ReleaseStage]:
    """Return the stages with the failed clusters of the current one Pending again, and with the
    time anew for those that are not healthy yet.

    What stood in a cluster before the release stays known.
    """
    current = find_stage(stages)
    return [_retry_stage(stage) if stage is current else stage for stage in stages]


def _retry_stage(stage: ReleaseStage) -> ReleaseStage:
    clusters = [_retry(cluster) for cluster in stage.clusters]
    if all(cluster.phase is not ClusterPhase.FAILED for cluster in stage.clusters):
        return stage.model_copy(update={"clusters": clusters})
    return ReleaseStage(name=stage.name, phase=StagePhase.RUNNING, clusters=clusters)


def _retry(cluster: ReleaseCluster) -> ReleaseCluster:
    if cluster.phase is not ClusterPhase.FAILED:
        return cluster.model_copy(update={"not_healthy_since": None})
    return ReleaseCluster(name=cluster.name, previous=cluster.previous)


def _with_phase(stage: ReleaseStage, phase: StagePhase) -> ReleaseStage:
    return stage.model_copy(update={"phase": phase})


def _remove(cluster: ReleaseCluster) -> ReleaseCluster:
    if cluster.phase.settled:
        return cluster
    return cluster.model_copy(
        update={
            "phase": ClusterPhase.SKIPPED,
            "reason": ReleaseReason.CLUSTER_REMOVED,
            "evidence": "its MemberCluster was removed",
            "unreachable_since": None,
        }
    )


def _phase_of_unreachable(policy: OnUnreachable, phase: ClusterPhase) -> ClusterPhase:
    if policy is OnUnreachable.WAIT or (phase.settled and policy is OnUnreachable.SKIP):
        return phase
    return ClusterPhase.SKIPPED if policy is OnUnreachable.SKIP else ClusterPhase.FAILED


_PHASES = {Progress.FAILED: ClusterPhase.FAILED, Progress.CURRENT: ClusterPhase.SUCCEEDED}


def _return_reachable(cluster: ReleaseCluster, now: datetime) -> ReleaseCluster:
    """Return the cluster that answers again. The time without an answer does not count."""
    lost, since = cluster.unreachable_since, cluster.not_healthy_since
    if lost is not None and since is not None:
        since += now - max(lost, since)
    changes = {"unreachable_since": None, "not_healthy_since": since, "reason": None}
    return cluster.model_copy(update={**changes, "evidence": ""})


def _apply_health(cluster: ReleaseCluster, health: ClusterHealth, now: datetime) -> ReleaseCluster:
    waits = health.reason is ReleaseReason.NOT_HEALTHY_YET
    return cluster.model_copy(
        update={
            "phase": _PHASES.get(health.progress, cluster.phase),
            "reason": health.reason,
            "evidence": health.evidence,
            "drift": list(health.drift),
            "not_healthy_since": (cluster.not_healthy_since or now) if waits else None,
        }
    )
